#include <algorithm>
#include <iostream>
#include <set>

#include "src/base/allocation.h"
#include "src/base/error.h"
#include "src/base/progress.h"
#include "src/base/shell.h"
#include "src/base/with_place.h"
#include "src/replay/options/config_file.h"
#include "src/replay/record/imported_samples.h"
#include "src/replay/referee/referee_report.h"
#include "src/replay/rerun/replay.h"
#include "src/replay/run/machine.h"
#include "src/replay/run/run_config.h"
#include "src/replay/source/model_source.h"
#include "src/replay/verbs/train.h"

namespace rlreplay::replay {
namespace {

RefereeSelection selection_of(const TrainArguments& arguments, const RecordedRun& record) {
  RefereeSelection out;
  out.steps = parse_steps(arguments.steps, steps_of_rollouts(record));
  const auto set = [](const std::vector<uint64_t>& ids) {
    return std::set<uint64_t>(ids.begin(), ids.end());
  };
  if (!arguments.samples.empty()) out.samples = set(arguments.samples);
  if (!arguments.groups.empty()) out.groups = set(arguments.groups);
  out.max_tokens = arguments.max_tokens;
  out.version = arguments.weights_version;
  return out;
}

/// The options that flags are set on: what is known of an imported run's, or a captured run's own.
RunOptions referee_base(const RecordedRun& record, const std::optional<std::string>& vendor) {
  if (vendor) return imported_options(record, *vendor);
  // The weights are not those of the run's model unless the user says so.
  RunOptions recorded = record.config().options;
  recorded.model.clear();
  return recorded;
}

/// Sees that what wrote an imported dump computed from tokens, and from all ids or known ones.
void check_imported(const RunOptions& options, const RecordedRun& record,
                    const RefereeCase& given) {
  for (size_t first = 0, end = 0; first < given.samples.size(); first = end) {
    while (end < given.samples.size() && given.rollouts[end] == given.rollouts[first]) ++end;
    check_inputs(record, given.rollouts[first],
                 std::span(given.samples).subspan(first, end - first));
  }
  const bool any =
      std::ranges::any_of(given.samples, [](const Sample& s) { return s.nuclei.has_value(); });
  if (any || needs_nuclei(options)) check_nuclei(given.samples, record.path());
}

/// The rollouts before which the dump holds weights: what wrote their samples.
std::set<int64_t> own_weights(const RecordedRun& record) {
  std::set<int64_t> out;
  for (const StepId& state : record.states()) {
    if (state.step == 0) out.insert(state.rollout);
  }
  return out;
}

/// The model that --model names; without it, the recorded weights that wrote the samples.
std::unique_ptr<ModelSource> find_weights(const RunOptions& options, const RecordedRun& record,
                                          const RefereeCase& given) {
  if (!options.model.empty()) {
    return find_model(options.model, static_cast<uint64_t>(options.seed));
  }
  if (imported_from(record.dump().meta(), record.path())) {
    throw Error(ErrorCode::kUsage,
                "the dump was imported and holds no weights: give --model, the checkpoint that "
                "wrote its samples",
                record.path());
  }
  const std::set<int64_t> own = own_weights(record);
  if (own.empty()) {
    throw Error(ErrorCode::kIncomplete,
                "the dump holds no weights with which a rollout began: give --model, or capture "
                "with --weights first or all",
                record.path());
  }
  const int64_t rollout = given.rollouts.front();
  const bool one = std::ranges::count(given.rollouts, rollout) == std::ssize(given.rollouts);
  if (one && own.contains(rollout)) return recorded_model(record, {{rollout, 0}});
  std::string held;
  for (const int64_t id : own) held += (held.empty() ? "" : ", ") + std::to_string(id);
  throw Error(ErrorCode::kUsage,
              "without --model recorded weights judge the one rollout that they wrote, and the "
              "dump holds those of rollout " +
                  held + ": choose it with --steps, or give --model",
              record.path());
}

engine::StreamedScores evaluate(Machine& machine, const ModelSource& model,
                                const RunOptions& options, const RefereeCase& given) {
  engine::StreamOptions stream;
  stream.temperature = static_cast<float>(options.rollout_temperature);
  stream.rope = rope(options);
  stream.rounded = true;
  const engine::StreamPlan plan = engine::plan_stream(model.config(), given.samples, stream);
  const engine::MemoryEstimate memory = engine::estimate_memory(model.config(), stream, plan);
  if (memory.total() > (int64_t{1} << 30)) {
    std::cerr << "rlreplay: memory: " << engine::to_string(memory) << '\n';
  }
  engine::check_memory(memory, available_memory());
  Progress progress("referee", "passes", plan.passes);
  return engine::score_streamed(machine.runtime(), model.config(), model.reader(machine.runtime()),
                                given.samples, stream, plan,
                                [&](int64_t done) { progress.at(done); });
}

TokenText token_text(const ModelSource& model) {
  try {
    auto tokenizer = std::make_shared<Tokenizer>(model.tokenizer());
    return [tokenizer](std::span<const int32_t> ids) { return tokenizer->decode(ids); };
  } catch (const Error&) {  // the numbers are judged all the same
    return [](std::span<const int32_t> ids) {
      std::string out;
      for (const int32_t id : ids) out += "#" + std::to_string(id);
      return out;
    };
  }
}

std::string again(const TrainArguments& arguments) {
  std::string out = "rlreplay train " + shell_word(arguments.from) + " --forward" +
                    arguments.flags.command_line();
  const auto list = [&](const char* flag, const std::vector<uint64_t>& ids) {
    for (size_t i = 0; i < ids.size(); ++i) {
      out += (i == 0 ? std::string(flag) : ",") + std::to_string(ids[i]);
    }
  };
  if (!arguments.steps.empty()) out += " --steps " + shell_word(arguments.steps);
  list(" --samples ", arguments.samples);
  list(" --groups ", arguments.groups);
  if (arguments.max_tokens) out += " --max-tokens " + std::to_string(*arguments.max_tokens);
  if (arguments.weights_version) {
    out += " --weights-version " + std::to_string(*arguments.weights_version);
  }
  return out;
}

}  // namespace

void check_referee(const TrainArguments& arguments) {
  const bool selects = !arguments.samples.empty() || !arguments.groups.empty() ||
                       arguments.max_tokens || arguments.weights_version;
  if (!arguments.forward && selects) {
    throw Error(ErrorCode::kUsage,
                "--samples, --groups, --max-tokens and --weights-version are for --forward: a step "
                "is replayed whole");
  }
  if (!arguments.forward) return;
  if (arguments.from.empty()) {
    throw Error(ErrorCode::kUsage, "--forward judges a dump: give it with --from");
  }
  if (arguments.each_step || arguments.stop_at_first || !arguments.inject.empty() ||
      !arguments.output.empty()) {
    throw Error(ErrorCode::kUsage,
                "--each-step, --stop-at-first, --inject and -o are for a replay of the training; "
                "--forward only evaluates");
  }
}

int judge_forward(const TrainArguments& arguments, const RecordedRun& record) {
  const auto vendor = imported_from(record.dump().meta(), record.path());
  const RunOptions base = referee_base(record, vendor);
  const RunOptions options = arguments.flags.resolve(base);
  if (arguments.flags.print_config()) {
    std::cout << options_yaml(options);
    return 0;
  }
  const std::string unused = without_effect(base, options, ReplayKind::kReferee);
  if (!unused.empty()) std::cerr << "rlreplay: no effect on the referee: " << unused << '\n';
  RefereeSelection selection = selection_of(arguments, record);
  const std::set<int64_t> own = own_weights(record);
  if (options.model.empty() && !own.empty()) selection.own = *own.begin();
  const RefereeCase given = select_case(record, selection);
  if (vendor) check_imported(options, record, given);
  const auto model = find_weights(options, record, given);
  Machine machine(options);
  const RefereeVerdict verdict = judge(
      given, with_place(record.path(), [&] { return evaluate(machine, *model, options, given); }));
  if (verdict.tokens.empty()) {
    throw Error(ErrorCode::kIncomplete,
                "every response token of the selected samples is masked: there is nothing to judge",
                record.path());
  }
  const RefereeSetting setting{arguments.from,
                               options.model.empty() ? "the dump's own weights" : options.model,
                               options.rollout_temperature, again(arguments)};
  const TokenText text = token_text(*model);
  std::cout << (arguments.json ? referee_json(setting, given, verdict, text) + "\n"
                               : referee_text(setting, given, verdict, text));
  return verdict.finding() ? 1 : 0;
}

}  // namespace rlreplay::replay
