#include "src/replay/inspect/state_check.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "format/dataset.h"
#include "format/rule.h"
#include "kernels/order.h"
#include "src/base/buffer.h"
#include "src/base/error.h"
#include "src/base/words.h"
#include "src/events/recording_sink.h"
#include "src/replay/record/event_units.h"
#include "src/replay/record/state_reader.h"

namespace rlreplay::replay {
namespace {

/// Goes through the states of a run in its order. The three buffers hold the state that was read
/// last: of the next one only what differs is read into them.
class StateCheck {
 public:
  StateCheck(const RecordedRun& record, const ModelConfig& model, ThreadPool& pool)
      : record_(record),
        parameters_(make_parameters(model)),
        weights_(static_cast<size_t>(parameters_.elements)),
        first_(weights_.size()),
        second_(weights_.size()),
        reader_(record.dump(), parameters_, {weights_, first_, second_}),
        sink_(model, parameters_, kernels::kTokenLeaf, {}, pool) {}

  /// The state before `step`, the `number`-th of the run, against what `before` left.
  void check(const StepId& step, size_t number, const StepId* before) {
    reader_.read(step.group());
    check_numbers(step, "parameters", weights_, false);
    check_numbers(step, "exp_avg", first_, false);
    check_numbers(step, "exp_avg_sq", second_, true);
    const int64_t counted = read_steps(record_.dump(), step.group());
    if (!origin_) origin_ = counted - static_cast<int64_t>(number);
    if (counted != *origin_ + static_cast<int64_t>(number)) {
      add(step, "scalars",
          "the optimizer counted " + std::to_string(counted) + " steps before step " + step.name() +
              ", not " + std::to_string(*origin_ + static_cast<int64_t>(number)));
    }
    if (before != nullptr) compare(step, *before);
  }

  void add(const StepId& step, const std::string& dataset, const std::string& message) {
    const std::string path = step.group() + "/" + dataset;
    problems.push_back({"state", holder_of(step, path), path, message});
  }

  /// A unit that cannot be read at all.
  void add(const format::FormatError& error) {
    problems.push_back({std::string(to_string(error.rule())), error.problem().path,
                        error.problem().dataset, error.what()});
  }

  /// A state that cannot be put together: the error names the units.
  void add(const StepId& step, const Error& error) {
    problems.push_back({"state", error.where(), step.group() + "/parameters", error.what()});
  }

  std::vector<RecordProblem> problems;
  std::vector<std::string> not_checked;

 private:
  /// The first unit of the state that holds a dataset.
  std::string holder_of(const StepId& step, const std::string& dataset) const {
    const auto units = record_.dump().find("weights", step.group());
    for (const format::UnitRecord* unit : units) {
      if (record_.dump().open_unit(*unit).find(dataset) != nullptr) return unit->path;
    }
    // In none: what was computed of all of them.
    return units.size() == 1 ? units.front()->path : "weights/" + step.group();
  }

  /// The first element of each tensor with which no step can be computed.
  void check_numbers(const StepId& step, const std::string& folder, const Buffer<float>& values,
                     bool squares) {
    for (const Parameter& p : parameters_.list) {
      for (int64_t i = 0; i < p.rows * p.cols; ++i) {
        const float x = values.data()[p.offset + i];
        if (std::isfinite(x) && !(squares && x < 0)) continue;
        add(step, folder + "/" + format::link_name(p.name),
            "element " + std::to_string(i / p.cols) + "," + std::to_string(i % p.cols) +
                " of the state before step " + step.name() + " is " + std::to_string(x) +
                (squares ? ", and a mean of squares is finite and not below 0"
                         : ", which is not finite"));
        break;
      }
    }
  }

  void compare(const StepId& step, const StepId& before) {
    const size_t ranks = event_units(record_.dump(), "train", before.group()).size();
    if (ranks > 1) {
      not_checked.push_back("the state before step " + step.name() + ": step " + before.name() +
                            " has events of " + std::to_string(ranks) + " ranks");
      return;
    }
    const engine::StepEvents left = record_.step_events(before);
    size_t unknown = compare("parameters", engine::Op::kWeight, weights_, left, step, before);
    unknown += compare("exp_avg", engine::Op::kExpAvg, first_, left, step, before);
    unknown += compare("exp_avg_sq", engine::Op::kExpAvgSq, second_, left, step, before);
    if (unknown == 0) return;
    not_checked.push_back("the state before step " + step.name() + ": of " +
                          counted(unknown, "tensor") + " of it step " + before.name() +
                          " recorded no digest");
  }

  /// Returns of how many tensors there is nothing to compare with.
  size_t compare(const std::string& folder, engine::Op op, Buffer<float>& values,
                 const engine::StepEvents& left, const StepId& step, const StepId& before) {
    size_t unknown = 0;
    for (const Parameter& p : parameters_.list) {
      const engine::Event event{engine::Phase::kOptimizer, p.layer, op, p.name};
      sink_.whole(event, engine::EventView::of(
                             kernels::Matrix<float>(values.data() + p.offset, p.rows, p.cols)));
      const engine::StepEvents held = sink_.finish(step.rollout, step.step);
      const engine::EventRecord* recorded = left.find(event);
      const engine::EventRecord* found = held.find(event);
      if (recorded == nullptr) ++unknown;
      if (recorded == nullptr || found->same_value(*recorded)) continue;
      add(step, folder + "/" + format::link_name(p.name),
          "the state before step " + step.name() + " has digest " + found->digest.hex() +
              ", and step " + before.name() + " left " + recorded->digest.hex());
    }
    return unknown;
  }

  const RecordedRun& record_;
  ParameterTable parameters_;
  Buffer<float> weights_, first_, second_;
  StateReader reader_;
  engine::RecordingSink sink_;
  std::optional<int64_t> origin_;  // what the counter said before the run
};

}  // namespace

RecordFindings check_states(const RecordedRun& record, ThreadPool& pool) {
  const auto config = record.find_config();
  if (record.states().empty()) return {};
  if (!config) return {{}, {"states: the dump names no model that this version knows"}};
  StateCheck states(record, config->model, pool);
  for (const StepId& step : record.states()) {
    const auto after = std::ranges::lower_bound(record.steps(), step);
    const auto number = static_cast<size_t>(after - record.steps().begin());
    try {
      states.check(step, number, number == 0 ? nullptr : &*(after - 1));
    } catch (const format::FormatError& error) {
      states.add(error);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kCorrupt && error.code() != ErrorCode::kIncomplete) throw;
      states.add(step, error);
    }
  }
  return {std::move(states.problems), std::move(states.not_checked)};
}

}  // namespace rlreplay::replay
