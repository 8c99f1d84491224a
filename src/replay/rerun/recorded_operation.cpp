#include "src/replay/rerun/recorded_operation.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/engine/check_samples.h"
#include "src/engine/rotary.h"
#include "src/engine/stage.h"
#include "src/events/event_rows.h"
#include "src/events/table.h"
#include "src/replay/record/recorded_step.h"
#include "src/replay/rerun/replay.h"
#include "src/replay/run/run_config.h"

namespace rlreplay::replay {

using engine::Event;
using engine::EventRecord;
using kernels::Matrix;

RecordedOperation::RecordedOperation(const RecordedRun& record, const engine::StepEvent& at,
                                     ThreadPool& pool)
    : record_(record),
      at_(at),
      step_{at.rollout_id, at.step_id},
      config_(record.config()),
      parameters_(make_parameters(config_.model)) {
  check_event();
  events_ = record.step_events(step_);
  read_samples();
  output_ = recorded(at.event);
  op_.event = at.event;
  op_.model = config_.model;
  op_.temperature = static_cast<float>(config_.options.rollout_temperature);
  op_.count = output_.rows;
  op_.columns = output_.cols;
  if (at.event.op == engine::Op::kRotary) {
    const auto last = std::ranges::max_element(op_.batch.positions);
    op_.rotary =
        engine::make_rotary_table(config_.model, rope(config_.options), *last + int64_t{1}, pool);
  }
  find_inputs();
}

void RecordedOperation::refuse(ErrorCode code, const std::string& why) const {
  throw Error(code, to_string(at_) + ": " + why, record_.path());
}

void RecordedOperation::check_event() const {
  if (!form_of(at_.event)) {
    refuse(ErrorCode::kUnsupported,
           "it has no reference in binary64: what the phases forward and backward compute has");
  }
  if (std::ranges::find(record_.steps(), step_) == record_.steps().end()) {
    refuse(ErrorCode::kUsage, "the dump has no step " + step_.name());
  }
  const ModelConfig& model = config_.model;
  if (at_.event.layer >= model.layers || !has(model, engine::find_event(at_.event)->when)) {
    refuse(ErrorCode::kUsage, "there is no such event in the dump's model");
  }
}

/// The step's tokens, in the order of its events' rows.
void RecordedOperation::read_samples() {
  const RecordedRollout rollout = read_recorded_rollout(record_, step_.rollout);
  const auto step = std::ranges::find(rollout.steps, step_, &RecordedStep::id);
  if (step == rollout.steps.end()) refuse(ErrorCode::kIncomplete, "the step has no samples");
  engine::check_samples(config_.model, step->samples);
  for (const size_t i : by_id(step->samples)) samples_.push_back(step->samples[i]);
  const std::vector<const Sample*> all = engine::pointers_to(samples_);
  op_.batch = engine::batch_of_samples(all, kernels::kTokenLeaf);
  op_.scored = engine::rows_to_score(all, op_.batch, kernels::kTokenLeaf);
}

Matrix<const float> RecordedOperation::recorded(const Event& event) const {
  const EventRecord* found = events_.find(event);
  if (found == nullptr || found->values.empty()) {
    refuse(ErrorCode::kIncomplete, "the record has no values of " + to_string(event) +
                                       ": capture it with --record ops+values");
  }
  const engine::EventSpec& spec = *engine::find_event(event);
  const engine::RowSet rows = event_rows(spec, engine::sample_shapes(samples_));
  const auto set = static_cast<size_t>(found->row_set);
  const bool fits = found->dtype == DType::kF32 && found->row_set >= 0 &&
                    events_.row_sets.at(set) == rows && found->rows == row_count(rows) &&
                    found->cols == row_width(spec.width, config_.model) &&
                    found->values.size() == static_cast<size_t>(found->rows * found->cols) * 4;
  if (!fits)
    refuse(ErrorCode::kCorrupt, to_string(event) + " has not the rows of the step's tokens");
  return {reinterpret_cast<const float*>(found->values.data()), found->rows, found->cols};
}

/// Tokens are the batch's; of all else that is read, the values.
void RecordedOperation::find_inputs() {
  for (const engine::ResolvedInput& input : event_inputs(at_.event, config_.model)) {
    inputs_.push_back(input.before ? input.event.tensor : to_string(input.event));
    if (input.before) {
      op_.weights.push_back(weight(input.event));
    } else if (input.event.op != engine::Op::kBatch) {
      op_.rows.push_back(recorded(input.event));
    }
  }
}

Matrix<const float> RecordedOperation::weight(const Event& event) {
  if (weights_.empty()) {
    check_state(record_, step_);
    weights_.resize(static_cast<size_t>(parameters_.elements));
    record_.load_weights(step_, parameters_, weights_);
  }
  const auto p = std::ranges::find(parameters_.list, event.tensor, &Parameter::name);
  check(p != parameters_.list.end(), "an operation reads a weight that its model has not");
  return {weights_.data() + p->offset, p->rows, p->cols};
}

}  // namespace rlreplay::replay
