#include "src/replay/rerun/operation_replay.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "src/base/error.h"
#include "src/base/json_line.h"
#include "src/base/json_value.h"
#include "src/base/same_value.h"
#include "src/base/text_table.h"
#include "src/base/words.h"
#include "src/engine/model.h"
#include "src/engine/shard.h"
#include "src/events/table.h"
#include "src/replay/rerun/operation.h"
#include "src/replay/rerun/replay.h"

namespace rlreplay::replay {
namespace {

using engine::Event;
using engine::EventRecord;
using engine::Op;
using engine::Phase;
using kernels::KernelSet;
using kernels::Matrix;

std::optional<Form> form_of(const Event& event) {
  const bool scale = event.tensor == "r" || event.tensor == "q_r" || event.tensor == "k_r";
  if (event.phase == Phase::kForward) {
    switch (event.op) {
      case Op::kQkv:
      case Op::kOutput:
      case Op::kGateUp:
      case Op::kDown:
        return Form::kLinear;
      case Op::kInputNorm:
      case Op::kQkNorm:
      case Op::kPostNorm:
      case Op::kFinalNorm:
        return scale ? Form::kNormScale : Form::kNorm;
      case Op::kSwiGlu:
        return Form::kSwiGlu;
      default:
        return std::nullopt;
    }
  }
  if (event.phase != Phase::kBackward) return std::nullopt;
  if (event.op == Op::kDown || event.op == Op::kOutput) return Form::kLinearBackward;
  if (event.op != Op::kSwiGlu) return std::nullopt;
  return event.tensor == "dgate" ? Form::kSwiGluGate : Form::kSwiGluUp;
}

kernels::DotOrder order_of(const Event& event, const ModelConfig& model) {
  const engine::Orders orders(model, engine::whole_shard(model));
  const bool forward = event.phase == Phase::kForward;
  if (forward && event.op == Op::kOutput) return orders.output;
  if (forward && event.op == Op::kDown) return orders.down;
  return orders.hidden;
}

/// The recorded operation, and the memory that it looks into.
class RecordedOperation {
 public:
  RecordedOperation(const RecordedRun& record, const engine::StepEvent& at)
      : record_(record),
        at_(at),
        step_{at.rollout_id, at.step_id},
        model_(record.config().model),
        parameters_(make_parameters(model_)) {
    const auto form = form_of(at.event);
    if (!form) {
      refuse(ErrorCode::kUnsupported,
             "it has no reference in binary64: products, norms and swiglu of the forward have, and "
             "down, o and swiglu of the backward");
    }
    if (std::ranges::find(record.steps(), step_) == record.steps().end()) {
      refuse(ErrorCode::kUsage, "the dump has no step " + step_.name());
    }
    if (at.event.layer >= model_.layers) refuse(ErrorCode::kUsage, "there is no such event");
    events_ = record.step_events(step_);
    output_ = &recorded(at.event);
    op_.form = *form;
    op_.columns = output_->cols;
    op_.order = order_of(at.event, model_);
    op_.eps = static_cast<float>(model_.norm_eps);
    const bool keys = at.event.tensor.starts_with("k");
    if (at.event.op == Op::kQkNorm) op_.heads = keys ? model_.kv_heads : model_.heads;
    find_inputs();
  }

  const Operation& operation() const { return op_; }
  const std::vector<std::string>& inputs() const { return inputs_; }
  std::span<const float> output() const { return floats(*output_); }

 private:
  [[noreturn]] void refuse(ErrorCode code, const std::string& why) const {
    throw Error(code, to_string(at_) + ": " + why, record_.path());
  }

  const EventRecord& recorded(const Event& event) const {
    const EventRecord* found = events_.find(event);
    if (found == nullptr || found->values.empty()) {
      refuse(ErrorCode::kIncomplete, "the record has no values of " + to_string(event) +
                                         ": capture it with --record ops+values");
    }
    return *found;
  }

  static std::span<const float> floats(const EventRecord& event) {
    return {reinterpret_cast<const float*>(event.values.data()),
            event.values.size() / sizeof(float)};
  }

  void find_inputs() {
    for (const engine::ResolvedInput& input : event_inputs(at_.event, model_.layers)) {
      input.before ? add_weight(input.event) : add_rows(input.event);
    }
  }

  void add_rows(const Event& event) {
    const EventRecord& rows = recorded(event);
    const std::span<const float> values = floats(rows);
    const bool fits = rows.dtype == DType::kF32 && rows.rows == output_->rows &&
                      values.size() == static_cast<size_t>(rows.rows * rows.cols);
    if (!fits) refuse(ErrorCode::kCorrupt, to_string(event) + " has rows of other tokens");
    op_.rows.push_back({values.data(), rows.rows, rows.cols});
    inputs_.push_back(to_string(event));
  }

  /// None of what the model has not, as biases.
  void add_weight(const Event& event) {
    const auto p = std::ranges::find(parameters_.list, event.tensor, &Parameter::name);
    if (p == parameters_.list.end()) return;
    if (weights_.empty()) {
      check_state(record_, step_);
      weights_.resize(static_cast<size_t>(parameters_.elements));
      record_.load_weights(step_, parameters_, weights_);
    }
    op_.weights.push_back({weights_.data() + p->offset, p->rows, p->cols});
    inputs_.push_back(event.tensor);
  }

  const RecordedRun& record_;
  const engine::StepEvent at_;
  const StepId step_;
  const ModelConfig model_;
  const ParameterTable parameters_;
  engine::StepEvents events_;
  std::vector<float> weights_;
  const EventRecord* output_ = nullptr;
  Operation op_;
  std::vector<std::string> inputs_;
};

double last_place(double value) {
  const float size = std::abs(static_cast<float>(value));
  return static_cast<double>(std::nextafter(size, std::numeric_limits<float>::infinity())) - size;
}

OperationSide compare_side(std::string by, std::span<const float> values,
                           std::span<const float> record, std::span<const double> right) {
  OperationSide out;
  out.by = std::move(by);
  double squares = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    if (!same_value(values[i], record[i]) && out.differing++ == 0) out.first = at;
    const bool same = same_value(static_cast<double>(values[i]), right[i]);
    double error = same ? 0 : std::abs(values[i] - right[i]);
    if (std::isnan(error)) error = std::numeric_limits<double>::infinity();
    squares += error * error;
    if (error > 0) out.ulps = std::max(out.ulps, error / last_place(right[i]));
    if (error <= out.largest) continue;
    out.largest = error;
    out.at = at;
  }
  out.rms = std::sqrt(squares / static_cast<double>(std::max<size_t>(1, values.size())));
  return out;
}

}  // namespace

bool OperationReplay::identical() const {
  return std::ranges::all_of(sides, [](const OperationSide& side) { return side.differing == 0; });
}

const KernelSet& kernels_named(std::string_view name) {
  std::vector<std::string> there;
  for (const KernelSet& set : kernels::cpu_kernel_sets()) {
    if (set.name == name) return set;
    there.emplace_back(set.name);
  }
  const KernelSet& plain = kernels::reference_kernels();
  if (plain.name == name) return plain;
  there.emplace_back(plain.name);
  throw Error(ErrorCode::kUsage, "this processor has no kernel set " + std::string(name) +
                                     " for one operation: " + joined(there, ", ") +
                                     "; torch takes whole steps (rlreplay train DUMP --kernels "
                                     "torch)");
}

OperationReplay replay_operation(const RecordedRun& record, const engine::StepEvent& event,
                                 std::span<const KernelSet* const> sets, ThreadPool& pool) {
  const RecordedOperation recorded(record, event);
  const Operation& op = recorded.operation();
  OperationReplay out;
  out.event = event;
  out.inputs = recorded.inputs();
  out.rows = op.rows[0].rows;
  out.columns = op.columns;
  const std::vector<double> right = compute_binary64(op, pool);
  out.sides.push_back(compare_side("record", recorded.output(), recorded.output(), right));
  for (const KernelSet* set : sets) {
    const std::vector<float> values = compute(op, *set, pool);
    out.sides.push_back(compare_side(std::string(set->name), values, recorded.output(), right));
  }
  return out;
}

std::string operation_text(const OperationReplay& replay) {
  std::string out = to_string(replay.event) + ", " + counted(replay.rows, "row") + " of " +
                    std::to_string(replay.columns) + ", from its recorded inputs\n  " +
                    wrapped(joined(replay.inputs, ", "), 78, 2) + "\n\n";
  TextTable table({"by", "other bits", "first", "error", "ulps", "at", "rms"});
  for (const OperationSide& side : replay.sides) {
    table.add({side.by, side.by == "record" ? "-" : std::to_string(side.differing),
               side.first ? std::to_string(*side.first) : "-", short_number(side.largest, 3),
               short_number(side.ulps, 3), std::to_string(side.at), short_number(side.rms, 3)});
  }
  return out + table.str() + "error: against binary64; ulps: in units of its last place\n" +
         (replay.identical() ? "all agree with the record, bit for bit\n" : "");
}

std::string operation_json(const OperationReplay& replay, const std::string& dump) {
  JsonLine out;
  out.text("schema", "rlreplay.operation/1").text("dump", dump);
  out.text("event", to_string(replay.event)).json("inputs", json_list(replay.inputs));
  out.integer("rows", replay.rows).integer("columns", replay.columns);
  out.boolean("identical", replay.identical());
  const auto write = [](const OperationSide& side) {
    JsonLine line;
    line.text("by", side.by).integer("differing", side.differing);
    side.first ? line.integer("first", *side.first) : line.null("first");
    line.number("error", side.largest).number("ulps", side.ulps).integer("at", side.at);
    return line.number("rms", side.rms).str();
  };
  return out.json("sides", json_list(replay.sides, write)).str();
}

}  // namespace rlreplay::replay
