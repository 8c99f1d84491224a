#include "src/replay/state_check.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "format/dataset.h"
#include "format/rule.h"
#include "kernels/order.h"
#include "src/base/buffer.h"
#include "src/base/error.h"
#include "src/engine/recording_sink.h"
#include "src/replay/state_data.h"

namespace rlreplay::replay {
namespace {

std::optional<ModelConfig> model_of(const RecordedRun& record) {
  try {
    return record.config().model;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kUnsupported) return std::nullopt;
    throw;
  }
}

std::span<float> span_of(Buffer<float>& values) { return {values.data(), values.size()}; }

class StateCheck {
 public:
  StateCheck(const RecordedRun& record, const ModelConfig& model, ThreadPool& pool)
      : record_(record),
        parameters_(engine::make_parameters(model)),
        weights_(static_cast<size_t>(parameters_.elements)),
        first_(weights_.size()),
        second_(weights_.size()),
        reader_(record.dump(), parameters_, {span_of(weights_), span_of(first_), span_of(second_)}),
        sink_(model, parameters_, kernels::kTokenLeaf, {}, pool) {}

  /// The state before `step`, against what `before` left.
  void check(const StepId& step, const StepId& before) {
    const engine::StepEvents left = record_.step_events(before);
    const format::UnitReader unit = open_state(record_.dump(), step.group());
    reader_.read(unit, step.group());
    compare("parameters", engine::Op::kWeight, weights_, left, step, before);
    compare("exp_avg", engine::Op::kExpAvg, first_, left, step, before);
    compare("exp_avg_sq", engine::Op::kExpAvgSq, second_, left, step, before);
  }

  std::vector<StateProblem> problems;

 private:
  void compare(const std::string& folder, engine::Op op, Buffer<float>& values,
               const engine::StepEvents& left, const StepId& step, const StepId& before) {
    for (const engine::Parameter& p : parameters_.list) {
      const engine::Event event{engine::Phase::kOptimizer, p.layer, op, p.name};
      sink_.whole(event, engine::EventView::of(
                             kernels::Matrix<float>(values.data() + p.offset, p.rows, p.cols)));
      const engine::StepEvents held = sink_.finish(step.rollout, step.step);
      const engine::EventRecord* recorded = left.find(event);
      const engine::EventRecord* found = held.find(event);
      if (recorded == nullptr || found->same_value(*recorded)) continue;
      problems.push_back({"weights/" + step.group() + "/rank0.h5",
                          step.group() + "/" + folder + "/" + format::link_name(p.name),
                          "the state before step " + step.name() + " has digest " +
                              found->digest.hex() + ", and step " + before.name() + " left " +
                              recorded->digest.hex()});
    }
  }

  const RecordedRun& record_;
  engine::ParameterTable parameters_;
  Buffer<float> weights_, first_, second_;
  StateReader reader_;
  engine::RecordingSink sink_;
};

}  // namespace

std::vector<StateProblem> check_states(const RecordedRun& record, ThreadPool& pool) {
  const auto model = model_of(record);
  if (!model || record.states().empty()) return {};
  StateCheck states(record, *model, pool);
  for (const StepId& step : record.states()) {
    const auto after = std::ranges::lower_bound(record.steps(), step);
    if (after == record.steps().begin()) continue;
    try {
      states.check(step, *(after - 1));
    } catch (const format::FormatError&) {
      continue;  // verify says what is wrong with the unit
    }
  }
  return std::move(states.problems);
}

}  // namespace rlreplay::replay
