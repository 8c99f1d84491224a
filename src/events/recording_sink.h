#pragma once

#include <map>
#include <vector>

#include "src/base/thread_pool.h"
#include "src/events/row_history.h"
#include "src/events/tensor_digest.h"

namespace rlreplay::engine {

/// Keeps digests of the events that it sees, and row digests, statistics and values where they are
/// asked for. What it keeps depends on no order of samples, micro-batches, packing or threads.
class RecordingSink : public EventSink {
 public:
  /// `parameters` must outlive the sink; `leaf`: positions of a block of per-token scalars.
  RecordingSink(const ModelConfig& config, const ParameterTable& parameters, int64_t leaf,
                const RecordOptions& options, ThreadPool& pool);

  [[nodiscard]] bool wants(const Event& event) const override;
  void rows(const Event& event, const EventView& values,
            const RowCoordinates& coordinates) override;
  void whole(const Event& event, const EventView& values) override;
  void restart() override;

  /// What came since the last call, in canonical order; the sink is empty then.
  [[nodiscard]] StepEvents finish(int64_t rollout_id, int64_t step_id);

 private:
  /// A tensor with a row per token: its rows as they came.
  struct Rows {
    DigestPlan plan;
    Kind kind = Kind::kRows;
    int history = RowHistory::kNone;
    std::vector<RowSummary> summaries;
    std::vector<std::byte> values;
  };
  /// Rows of one history in order, and where StepEvents holds them.
  struct Order {
    std::vector<int64_t> order;
    RowSet rows;
    int row_set = -1;
  };

  Rows& state(const Event& event);
  const Order& order(int history, std::map<int, Order>& known, StepEvents& out) const;
  EventRecord finish_rows(const Event& event, Rows& rows, const Order& order) const;
  [[nodiscard]] TensorSummary sum_rows(const Rows& rows, const Order& order) const;
  [[nodiscard]] TensorSummary sum_leaves(const Rows& rows, const Order& order) const;

  ModelConfig config_;
  const ParameterTable& parameters_;
  int64_t leaf_;
  RecordOptions options_;
  ThreadPool& pool_;
  RowHistory history_;
  std::map<Event, Rows> rows_;
  std::map<Event, EventRecord> whole_;
};

}  // namespace rlreplay::engine
