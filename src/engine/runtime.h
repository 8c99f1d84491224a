#pragma once

#include "kernels/kernels.h"
#include "src/base/thread_pool.h"
#include "src/engine/events.h"

namespace rlreplay::engine {

/// Where a step runs and who watches it.
struct Runtime {
  const kernels::KernelSet& kernels;
  ThreadPool& pool;
  EventSink* sink = nullptr;  // null: nothing is emitted

  /// Runs one operation of the kernel set: `run(&KernelSet::add, Add{...})`.
  template <class Op>
  void run(kernels::Kernel<Op> kernels::KernelSet::*kernel, const Op& op) const {
    (kernels.*kernel)(op, pool);
  }
  void emit(const Event& event, kernels::Matrix<const float> values,
            const RowCoordinates& coordinates) const {
    if (sink != nullptr) sink->rows(event, values, coordinates);
  }
};

}  // namespace rlreplay::engine
