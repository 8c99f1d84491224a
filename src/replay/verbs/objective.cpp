#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>
#include <map>
#include <set>

#include "format/foreign/framework.h"
#include "src/base/error.h"
#include "src/base/shell.h"
#include "src/base/text_table.h"
#include "src/base/words.h"
#include "src/replay/exchange/any_dump.h"
#include "src/replay/inspect/objective_again.h"
#include "src/replay/inspect/objective_choice.h"
#include "src/replay/inspect/objective_report.h"
#include "src/replay/options/config_file.h"
#include "src/replay/options/objective_config.h"
#include "src/replay/record/dump_meta.h"
#include "src/replay/record/imported_samples.h"
#include "src/replay/record/incomplete_record.h"
#include "src/replay/record/recorded_step.h"
#include "src/replay/record/step_range.h"
#include "src/replay/verbs/run_flags.h"
#include "src/replay/verbs/value_checks.h"
#include "src/replay/verbs/verb.h"

namespace rlreplay::replay {
namespace {

// Of numbers that a framework computed in binary32, in an order of its own.
constexpr double kForeignTolerance = 1e-5;

constexpr std::array kWithoutEffect = {Section::kModel, Section::kPrompts, Section::kRollout,
                                       Section::kOptimizer, Section::kMachine};

struct ObjectiveArguments {
  std::string from, steps, reward_key;
  std::optional<double> tolerance;
  bool all = false;
  bool json = false;
  RunFlags flags;
};

/// Whether files of Miles' policy_loss_debug were imported, fitting a sample or not.
bool keeps_policy_loss(const format::DumpReader& dump) {
  return std::ranges::any_of(dump.units(), [](const format::UnitRecord& unit) {
    return unit.path.find("/policy_loss_debug/") != std::string::npos;
  });
}

RunOptions resolve_options(const ObjectiveArguments& arguments, const RecordedRun& record,
                           const std::string& source) {
  const auto recorded = source.empty() ? record.find_config() : std::nullopt;
  if (recorded) return arguments.flags.resolve_record(recorded->options);
  RunOptions base = options_of(source);
  const std::vector<Setting> launched = launched_objective(record);
  apply_settings(base, launched);
  const RunOptions out = arguments.flags.resolve(base);
  std::string said;
  for (const auto& [name, text] : launched) {
    said += " --" + name + (text == "true" ? "" : " " + shell_word(text));
  }
  std::cerr << (said.empty() ? "the dump says nothing of its options: they are"
                             : "the recorded launch says" + said + "; all other options are")
            << " those given, and defaults with --dialect " << out.dialect << '\n';
  return out;
}

/// `--steps A..B`.
StepRange steps_of(const ObjectiveArguments& arguments, const RecordedRun& record) {
  const StepRange range = parse_steps(arguments.steps, record.steps());
  check_steps(range, record.steps().size(), record.path());
  return range;
}

/// Leaves the steps that --steps chooses.
void keep_chosen(const StepRange& range, const RecordedRun& record,
                 std::vector<ObjectiveStep>& steps) {
  std::erase_if(steps, [&](const ObjectiveStep& step) {
    return !range.holds(std::ranges::lower_bound(record.steps(), step.id) - record.steps().begin());
  });
}

/// What is recorded and lacks an input, each name once.
std::string not_computable(const std::vector<ObjectiveStep>& steps) {
  std::string out;
  std::set<std::string> named;
  for (const ObjectiveStep& step : steps) {
    for (const Quantity& q : step.quantities) {
      const bool open = q.verdict == Verdict::kNoInput || q.not_computed > 0;
      if (!open || !named.insert(q.name).second) continue;
      out += (out.empty() ? "" : ", ") + q.name;
    }
  }
  return out;
}

/// Rollouts in slime's sense: samples, or trajectories where those are what was recorded.
int64_t count_trajectories(std::span<const Sample> samples) {
  std::set<std::pair<bool, uint64_t>> out;
  for (const Sample& s : samples) out.insert(trajectory_of(s));
  return std::ssize(out);
}

/// Whether a trajectory has several samples, as the rollout or its steps say: slime then groups by
/// its sizes, else by what is recorded.
bool has_long_trajectory(const RecordedRollout& rollout) {
  std::set<uint64_t> parted;
  std::set<std::pair<bool, uint64_t>> seen;
  for (const RecordedStep& step : rollout.steps) {
    for (const Sample& s : step.samples) {
      if (s.trajectory && parted.insert(s.id).second && !seen.insert(trajectory_of(s)).second) {
        return true;
      }
    }
  }
  return count_trajectories(rollout.samples) < std::ssize(rollout.samples);
}

/// The sizes of groups, each once, where the rollout says which samples answer one prompt.
std::set<int64_t> group_sizes(const RecordedRollout& rollout) {
  std::map<uint64_t, std::vector<Sample>> groups;
  if (!rollout.has_groups()) return {};
  for (const Sample& s : rollout.samples) groups[s.group].push_back(s);
  std::set<int64_t> out;
  for (const auto& [id, samples] : groups) out.insert(count_trajectories(samples));
  return out;
}

/// Whether Miles made so many samples of what the sizes announce: it leaves out those behind the
/// last whole batch of a step, unless samples are parts of trajectories.
bool is_trimmed(const RunOptions& options, int64_t samples) {
  const int64_t made = rollout_samples(options), batch = step_samples(options);
  return dialect(options) == engine::Dialect::kMiles && batch > 0 && samples > 0 &&
         samples == made - made % batch;
}

/// What the sizes that were given say otherwise than the rollout; empty where they agree.
std::string contradiction(const RunFlags& flags, const RunOptions& options,
                          const RecordedRollout& rollout) {
  const std::string of = "rollout " + std::to_string(rollout.id) + " has ";
  const int64_t rows = std::ssize(rollout.samples), made = rollout_samples(options);
  const bool by_rows = dialect(options) == engine::Dialect::kSlime && rows == made;
  const int64_t there = by_rows ? rows : count_trajectories(rollout.samples);
  const bool whole = flags.gives("rollout-batch-size") && flags.gives("n-samples-per-prompt");
  const bool trimmed = there == rows && is_trimmed(options, rows);
  if (whole && !rollout.samples.empty() && there != made && !trimmed) {
    return "--rollout-batch-size " + std::to_string(options.rollout_batch_size) +
           " of --n-samples-per-prompt " + std::to_string(options.n_samples_per_prompt) + " are " +
           counted(made, "sample") + ", " + of + std::to_string(there) +
           (there == rows ? "" : " trajectories of " + counted(rows, "sample"));
  }
  // What was filtered out makes groups smaller.
  const std::set<int64_t> sizes = group_sizes(rollout);
  const int64_t wanted = options.n_samples_per_prompt;
  const bool by_place = whole && by_rows && has_long_trajectory(rollout);
  if (flags.gives("n-samples-per-prompt") && !sizes.empty() && !by_place &&
      ((!sizes.contains(wanted) && !trimmed) || *sizes.rbegin() > wanted)) {
    return "--n-samples-per-prompt " + std::to_string(wanted) + ", " + of + "groups of " +
           (sizes.size() == 1 ? "" : std::to_string(*sizes.begin()) + " to ") +
           std::to_string(*sizes.rbegin());
  }
  if (flags.gives("n-samples-per-prompt") && !whole && !rollout.samples.empty() &&
      !rollout.has_groups() && there % wanted != 0) {
    return "--n-samples-per-prompt " + std::to_string(wanted) + ", " + of +
           "no groups recorded, and " + counted(there, "sample") + ", no multiple of it";
  }
  // A trainer that does not say its steps leaves one.
  const int64_t steps = std::ssize(rollout.steps);
  if (flags.gives("num-steps-per-rollout") && steps > 1 && steps != options.num_steps_per_rollout) {
    return "--num-steps-per-rollout " + std::to_string(options.num_steps_per_rollout) + ", " + of +
           std::to_string(steps);
  }
  if (!options.global_batch_size || !flags.gives("global-batch-size")) return "";
  const RecordedStep& first = rollout.steps.front();
  const int64_t batch = first.trajectories().value_or(count_trajectories(first.samples));
  if (batch == *options.global_batch_size || (steps == 1 && batch > *options.global_batch_size)) {
    return "";
  }
  return "--global-batch-size " + std::to_string(*options.global_batch_size) + ", step " +
         first.id.name() + " has " + std::to_string(batch);
}

/// A reward that is a dict is the number that `key` names there. Errors: kUsage.
void pick_reward(const std::string& key, RecordedRollout& rollout) {
  if (key.empty() || !rollout.data || !rollout.data->reward_components) return;
  const format::NamedColumns& parts = *rollout.data->reward_components;
  const auto at = std::ranges::find(parts.names, key);
  if (at == parts.names.end()) {
    throw Error(ErrorCode::kUsage,
                "no reward holds a number \"" + key + "\"; there are " + joined(parts.names, ", "));
  }
  const auto column = static_cast<size_t>(at - parts.names.begin());
  format::Column<double>& rewards = rollout.data->rewards.emplace();
  rewards.values.resize(rollout.data->size());
  rewards.presence.assign(rollout.data->size(), 0);
  for (const auto& [id, row] : rollout.rows) {
    const double value = parts.values[row * parts.names.size() + column];
    if (!format::is_present(parts.presence, row) || std::isnan(value)) continue;
    rewards.presence[row] = 1;
    rewards.values[row] = value;
    rollout.samples[row].reward = rewards.values[row];
    rollout.fields[row].reward = true;
  }
}

/// Holds what explains one step against all compared ones, and takes what holds in most.
void hold_explanations(const RecordedRun& record, const std::string& reward_key,
                       const ObjectiveOptions& options, std::vector<ObjectiveStep>& all) {
  const auto explained = [](const ObjectiveStep& step) { return !step.explanations.empty(); };
  if (std::ranges::none_of(all, explained)) return;
  for (size_t begin = 0; begin < all.size();) {
    size_t end = begin;
    while (end < all.size() && all[end].id.rollout == all[begin].id.rollout) ++end;
    RecordedRollout rollout = read_recorded_rollout(record, all[begin].id.rollout);
    pick_reward(reward_key, rollout);
    hold_explanations(rollout, options, std::span(all).subspan(begin, end - begin), all);
    begin = end;
  }
  choose_explanations(all);
}

/// Why the first of what is recorded could not be computed.
std::string first_reason(const std::vector<ObjectiveStep>& steps) {
  for (const ObjectiveStep& step : steps) {
    for (const Quantity& q : step.quantities) {
      if (q.verdict == Verdict::kNoInput && !q.missing.empty()) return q.missing;
    }
  }
  return "what they are computed from is not recorded";
}

/// What is said of all steps together. Errors: kIncomplete where nothing could be compared.
std::string summary(const std::vector<ObjectiveStep>& steps, double tolerance, bool given) {
  const auto different = std::ranges::count_if(steps, std::not_fn(&ObjectiveStep::reproduced));
  const std::string of = counted(steps.size(), "step"), open = not_computable(steps);
  if (std::ranges::none_of(steps, &ObjectiveStep::compared)) {
    throw Error(ErrorCode::kIncomplete, open.empty()
                                            ? "nothing of the objective is recorded in " + of
                                            : "nothing could be computed of " + of + ": " + open +
                                                  " are recorded; " + first_reason(steps));
  }
  if (different > 0) return "NOT reproduced: " + std::to_string(different) + " of " + of;
  int64_t unplaced = 0;
  for (const ObjectiveStep& step : steps) unplaced += step.unplaced;
  const bool all = open.empty() && unplaced == 0;
  return (all ? "all that is recorded of " : "what can be computed of ") + of + " is reproduced" +
         (tolerance == 0 ? ", to the bit"
          : given        ? ", within --tolerance " + short_number(tolerance)
                         : ", within the rounding of binary32") +
         (open.empty() ? "" : "; recorded and not computable: " + open) +
         (unplaced == 0 ? "" : "; no row of policy_loss_debug fits " + counted(unplaced, "sample"));
}

/// How the steps of a dump are judged. A dump of this program says its options itself; its numbers
/// are held to the bit where the kernels are the portable ones.
ObjectiveOptions objective_options(const ObjectiveArguments& arguments, const RecordedRun& record,
                                   const std::string& source, const RunOptions& resolved) {
  ObjectiveOptions options;
  options.setting.options = resolved;
  options.setting.sizes_known =
      arguments.flags.gives("rollout-batch-size") && arguments.flags.gives("n-samples-per-prompt");
  if (arguments.flags.gives("n-samples-per-prompt")) {
    options.setting.group_size = static_cast<uint64_t>(resolved.n_samples_per_prompt);
  }
  const auto recorded = source.empty() ? record.find_config() : std::nullopt;
  if (recorded) options.recorded = recorded->options;
  const bool exact = recorded && resolved.kernels == "portable";
  options.setting.early_term = source == to_string(foreign::Framework::kMiles);
  options.policy_loss_files = keeps_policy_loss(record.dump());
  options.tolerance = arguments.tolerance.value_or(exact ? 0 : kForeignTolerance);
  return options;
}

/// All chosen steps, judged and explained. `other`: why the options are not those of the dump.
std::vector<ObjectiveStep> judged_steps(const ObjectiveArguments& arguments,
                                        const RecordedRun& record, const ObjectiveOptions& options,
                                        std::string& other) {
  const StepRange range = steps_of(arguments, record);
  std::vector<ObjectiveStep> all;
  for (const int64_t id : trained_rollouts(record)) {
    if (!range.holds_of(id, record.steps())) continue;
    RecordedRollout rollout = read_recorded_rollout(record, id);
    pick_reward(arguments.reward_key, rollout);
    if (other.empty() && !options.recorded) {
      other = contradiction(arguments.flags, options.setting.options, rollout);
    }
    auto steps = check_objective(rollout, options);
    keep_chosen(range, record, steps);
    std::ranges::move(steps, std::back_inserter(all));
  }
  // An explanation is held against every step, so all must be there first.
  hold_explanations(record, arguments.reward_key, options, all);
  return all;
}

int objective(const ObjectiveArguments& arguments, const RecordedRun& record) {
  const std::string source = imported_from(record.dump().meta(), record.path()).value_or("");
  const RunOptions resolved = resolve_options(arguments, record, source);
  if (arguments.flags.print_config()) {
    std::cout << options_yaml(resolved);
    return 0;
  }
  const ObjectiveOptions options = objective_options(arguments, record, source, resolved);
  if (record.steps().empty()) {
    throw Error(ErrorCode::kIncomplete, "the dump holds no training steps", arguments.from);
  }
  std::string other;
  const std::vector<ObjectiveStep> all = judged_steps(arguments, record, options, other);
  for (const ObjectiveStep& step : all) {
    if (arguments.json) std::cout << objective_json(step) << '\n';
  }
  if (all.empty()) {
    throw Error(ErrorCode::kIncomplete, "the steps hold no training data", arguments.from);
  }
  const bool reproduced = std::ranges::all_of(all, &ObjectiveStep::reproduced);
  (arguments.json ? std::cerr : std::cout) << incomplete_line(record, arguments.from);
  if (!arguments.json) std::cout << objective_text(all, arguments.all) << '\n' << std::flush;
  const std::string verdict = summary(all, options.tolerance, arguments.tolerance.has_value());
  if (!other.empty()) {
    (arguments.json ? std::cerr : std::cout)
        << "these options are not this dump's: " << other << '\n';
  }
  if (!arguments.json) {
    std::cout << verdict << '\n';
    if (!reproduced) {
      std::cout << "again: rlreplay objective " << shell_word(arguments.from)
                << (arguments.reward_key.empty()
                        ? ""
                        : " --reward-key " + shell_word(arguments.reward_key))
                << (arguments.tolerance ? " --tolerance " + short_number(*arguments.tolerance) : "")
                << flags_with_found(arguments.flags.command_line(), options, all) << '\n';
    }
  }
  return reproduced && other.empty() ? 0 : 1;
}

}  // namespace

void add_objective(CLI::App& program, VerbRun& chosen) {
  auto arguments = std::make_shared<ObjectiveArguments>();
  CLI::App* verb = program.add_subcommand(
      "objective", "Compute the objective of recorded steps again, without a model");
  verb->add_option("--from,dump", arguments->from, "a dump, or files of slime, Miles or Relax")
      ->required();
  verb->add_option("--steps", arguments->steps,
                   "steps to check: A..B, each as 3.0 or counted from 0, B included");
  verb->add_option("--tolerance", arguments->tolerance,
                   "largest |a - b| / max(1, |a|) that counts as rounding [0 for dumps of ours, "
                   "1e-5 for others]")
      ->check(finite_not_negative());
  verb->add_option("--reward-key", arguments->reward_key,
                   "the number to take of a reward that is a dict");
  arguments->flags.add(*verb, kRunSections, {"steps"}, kWithoutEffect);
  verb->add_flag("--all", arguments->all, "list every step, and explain each that differs");
  verb->add_flag("--json", arguments->json, "an object a step instead of tables");
  verb->footer(
      "From rewards to losses: shaped rewards, KL, returns, advantages, policy loss and its\n"
      "reductions are computed from recorded log-probabilities and compared with what was\n"
      "recorded. A number that the options do not reproduce is tried with other options and with\n"
      "what frameworks decide by themselves; the one that matches is named. Foreign dumps hold no\n"
      "options: give those of the run; its others may stand among them. Exit code 1 where a\n"
      "recorded number is not reproduced, and where the sizes given are not the dump's.\n\n"
      "Examples:\n  rlreplay objective dump/\n"
      "  rlreplay objective dump_details/ --dialect miles --normalize-advantages\n"
      "  rlreplay objective dump/ --calculate-per-token-loss --steps 0..3");
  verb->callback([=, &chosen] {
    chosen = [=] {
      return with_dump(arguments->from,
                       [&](const AnyDump& dump) { return objective(*arguments, dump.run()); });
    };
  });
}

}  // namespace rlreplay::replay
