#pragma once

#include "kernels/kernels.h"
#include "src/base/thread_pool.h"
#include "src/engine/group.h"
#include "src/engine/rank_host.h"
#include "src/events/events.h"

namespace rlreplay::engine {

/// An event that is named only where somebody listens.
struct EventKey {
  Phase phase;
  int layer;
  Op op;
  std::string_view tensor;

  Event event() const { return {phase, layer, op, std::string(tensor)}; }
};

/// Where a step runs and who watches it.
struct Runtime {
  const kernels::KernelSet& kernels;
  ThreadPool& pool;
  EventSink* sink = nullptr;     // null: nothing is emitted
  const Ranks* ranks = nullptr;  // null: one rank does it all
  RankHost* host = nullptr;      // null: the ranks of a layout are threads

  /// This runtime, watched by another sink.
  Runtime with(EventSink* other) const { return {kernels, pool, other, ranks, host}; }

  /// The group that shares every matrix, a sample's tokens, the samples, the layers; null where it
  /// is one rank.
  Group* tp() const { return ranks == nullptr ? nullptr : shared(ranks->tp); }
  Group* cp() const { return ranks == nullptr ? nullptr : shared(ranks->cp); }
  Group* dp() const { return ranks == nullptr ? nullptr : shared(ranks->dp); }
  Group* pp() const { return ranks == nullptr ? nullptr : shared(ranks->pp); }

  /// Runs one operation of the kernel set: `run(&KernelSet::matmul, {...})`.
  template <class Op>
  void run(kernels::Kernel<Op> kernels::KernelSet::*kernel, const Op& op) const {
    (kernels.*kernel)(op, pool);
  }
  /// Shows the rows of a per-token tensor to the sink, which may change them.
  template <class T>
  void emit(const EventKey& key, kernels::Matrix<T> values,
            const RowCoordinates& coordinates) const {
    if (sink == nullptr) return;
    const Event event = key.event();
    if (sink->wants(event)) sink->rows(event, EventView::of(values), coordinates);
  }
  /// Shows a parameter's tensor or a scalar to the sink, which may change it.
  template <class T>
  void emit_whole(const EventKey& key, kernels::Matrix<T> values) const {
    if (sink == nullptr) return;
    const Event event = key.event();
    if (sink->wants(event)) sink->whole(event, EventView::of(values));
  }
  /// Shows a rank's part of a parameter's tensor, which stands at `row` and `column` of the whole.
  template <class T>
  void emit_part(const EventKey& key, kernels::Matrix<T> values, int64_t row,
                 int64_t column) const {
    if (sink == nullptr || ranks == nullptr) return;
    const Event event = key.event();
    const int rank = ranks->world.rank();
    if (sink->wants_part(event, rank)) sink->part(event, rank, EventView::of(values), row, column);
  }

 private:
  static Group* shared(Group& group) { return group.size() > 1 ? &group : nullptr; }
};

}  // namespace rlreplay::engine
