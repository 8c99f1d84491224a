#include "src/replay/capture/resume.h"

#include <algorithm>

#include "format/unit.h"
#include "format/unit_writer.h"
#include "src/base/error.h"
#include "src/replay/capture/state_data.h"
#include "src/replay/launch/recorded_command.h"
#include "src/replay/record/recorded_step.h"

namespace rlreplay::replay {
namespace {

constexpr std::string_view kFree[] = {"layout", "micro-batch-size", "recompute", "rollout-slots",
                                      "save",   "threads",          "ranks-as",  "rank-timeout"};

bool is_whole(const RecordedRun& record, const RunOptions& options, int64_t rollout) {
  if (!std::ranges::binary_search(record.rollouts(), rollout)) return false;
  if (options.rollout_only) return true;
  const int64_t before = rollout * steps_per_rollout(options);
  const int64_t steps = std::min(steps_per_rollout(options), planned_steps(options) - before);
  for (int64_t step = 0; step < steps; ++step) {
    if (!std::ranges::binary_search(record.steps(), StepId{rollout, step})) return false;
  }
  return true;
}

/// The first rollout that has to be run; one more than the last where none has to be.
int64_t first_missing(const RecordedRun& record, const RunOptions& options) {
  const int64_t per_rollout = steps_per_rollout(options);
  const int64_t rollouts = (planned_steps(options) + per_rollout - 1) / per_rollout;
  int64_t id = 0;
  while (id < rollouts && is_whole(record, options, id)) ++id;
  // The state after the last step is in no dump, and a checkpoint is made of it.
  return id == rollouts && !options.save.empty() ? id - 1 : id;
}

void check_model(const RecordedRun& record, Trainer& trainer) {
  const StepId begin{0, 0};
  const Layout layout = parse_layout(record.config().options.layout);
  const auto units = record.dump().find("weights", begin.group());
  size_t same = 0;
  for (int rank = 0; rank < layout.ranks() && !units.empty(); ++rank) {
    each_state_unit(trainer.backend(), begin.group(), layout, rank, kStateUnitBytes,
                    [&](const std::string& path, const std::vector<format::Dataset>& datasets) {
                      const format::UnitRecord* unit = record.dump().find(path);
                      same += unit != nullptr && format::content_of(datasets) == unit->content;
                    });
  }
  if (same == units.size()) return;
  throw Error(ErrorCode::kUsage,
              "the model is not the one with which this capture began: the weights of " +
                  std::to_string(units.size() - std::min(same, units.size())) + " of " +
                  std::to_string(units.size()) + " units have changed",
              record.path());
}

void check_prompts(const RecordedRun& record, const RunTask& task) {
  if (record.rollouts().empty()) return;
  const int64_t last = record.rollouts().back();
  const auto samples = replayable_samples(record, last);
  const auto requests = task.requests(last);
  const bool same =
      std::ranges::equal(samples, requests, [](const Sample& s, const engine::Request& request) {
        const std::span tokens(s.tokens);
        return s.id == request.id && s.group == request.group &&
               std::ranges::equal(tokens.first(static_cast<size_t>(s.prompt_length)),
                                  request.prompt);
      });
  if (same) return;
  throw Error(ErrorCode::kUsage,
              "the prompts are not those with which this capture began: rollout " +
                  std::to_string(last) + " had others",
              record.path());
}

}  // namespace

void check_resumed_options(const RunOptions& recorded, const RunOptions& asked) {
  for (const Option& option : option_table()) {
    const std::string before = recorded_text(recorded, option);
    const std::string after = recorded_text(asked, option);
    if (before == after || std::ranges::find(kFree, option.name) != std::end(kFree)) continue;
    throw Error(ErrorCode::kUsage, "--" + std::string(option.name) + " is " + before +
                                       " in this dump, not " + after +
                                       ": a capture is resumed with the options it began with");
  }
}

RunStart resume_run(const RecordedRun& record, const RunOptions& options, const RunTask& task,
                    Trainer& trainer) {
  check_model(record, trainer);
  check_prompts(record, task);
  RunStart start;
  start.samples = [&record](int64_t id) {
    return std::ranges::binary_search(record.rollouts(), id) ? replayable_samples(record, id)
                                                             : std::vector<Sample>();
  };
  const int64_t missing = first_missing(record, options);
  start.rollout = missing;
  if (missing * steps_per_rollout(options) >= planned_steps(options)) return start;
  // Inside a rollout the weights are no longer those that gave its old log-probabilities.
  while (start.rollout > 0 && !record.has_state({start.rollout, 0})) --start.rollout;
  if (record.has_state({start.rollout, 0})) {
    read_state(record, {start.rollout, 0}, trainer.backend());
  }
  return start;
}

}  // namespace rlreplay::replay
