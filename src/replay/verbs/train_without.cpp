#include <algorithm>
#include <cmath>
#include <iostream>

#include "src/base/error.h"
#include "src/base/json_line.h"
#include "src/base/words.h"
#include "src/replay/record/recorded_step.h"
#include "src/replay/rerun/replay.h"
#include "src/replay/run/machine.h"
#include "src/replay/run/step_report.h"
#include "src/replay/verbs/train.h"

namespace rlreplay::replay {
namespace {

constexpr size_t kShownParameters = 8;  // parameters, without --all

void check_alone(const TrainArguments& arguments, const RunOptions& options) {
  if (arguments.each_step || arguments.stop_at_first || !arguments.inject.empty() ||
      !arguments.output.empty()) {
    throw Error(ErrorCode::kUsage,
                "--without-sample changes one step and compares none: not with --each-step, "
                "--stop-at-first, --inject or -o");
  }
  if (options.kernels != "portable") {
    throw Error(ErrorCode::kUnsupported,
                "--without-sample needs sums that are exact, which --kernels " + options.kernels +
                    " has not");
  }
}

/// The one step of the range that trains on the sample. Errors: kUsage for none or several, and
/// where the step has no other.
Removal find_removal(const RecordedRun& record, const StepRange& range, uint64_t sample) {
  const std::vector<StepId>& steps = record.steps();
  check_steps(range, steps.size(), record.path());
  const std::string name = "sample " + std::to_string(sample);
  std::vector<StepId> found;
  uint64_t least = UINT64_MAX, most = 0;
  std::optional<RecordedRollout> rollout;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (!range.holds(static_cast<int64_t>(i))) continue;
    if (!rollout || rollout->id != steps[i].rollout) {
      rollout = read_recorded_rollout(record, steps[i].rollout);
    }
    const auto step = std::ranges::find(rollout->steps, steps[i], &RecordedStep::id);
    for (const Sample& s : step->samples) {
      least = std::min(least, s.id);
      most = std::max(most, s.id);
      if (s.id == sample) found.push_back(steps[i]);
      if (s.id == sample && step->samples.size() == 1) {
        throw Error(
            ErrorCode::kUsage,
            name + " is the only one of step " + steps[i].name() + ": without it there is no step",
            record.path());
      }
    }
  }
  if (found.empty()) {
    throw Error(ErrorCode::kUsage,
                "none of these steps trains on " + name + ": their samples have ids from " +
                    std::to_string(least) + " to " + std::to_string(most),
                record.path());
  }
  if (found.size() > 1) {
    throw Error(ErrorCode::kUsage,
                name + " is trained on in step " + found[0].name() + " and in step " +
                    found[1].name() + ": say which begins, --steps " + found[1].name() + "..",
                record.path());
  }
  return {found.front(), sample};
}

/// A sample's part of one parameter's gradient.
struct Share {
  std::string parameter;
  int64_t elements = 0, touched = 0;
  double norm = 0;
};

std::vector<Share> shares_of(const ParameterTable& parameters, const StepWithout& step) {
  std::vector<Share> out;
  for (const Parameter& p : parameters.list) {
    Share share{p.name, p.size(), 0, 0};
    double squares = 0;
    for (int64_t i = 0; i < p.size(); ++i) {
      const int64_t part = step.part[static_cast<size_t>(p.offset + i)];
      share.touched += part != 0 ? 1 : 0;
      squares += static_cast<double>(part) * static_cast<double>(part);
    }
    share.norm = std::ldexp(std::sqrt(squares), -step.whole.outcome.result.scale);
    out.push_back(share);
  }
  return out;
}

void print_removal(const TrainArguments& arguments, const Removal& removal, const StepWithout& step,
                   std::vector<Share> shares) {
  const size_t all = shares.size();
  std::ranges::stable_sort(shares, std::greater(), &Share::norm);
  if (!arguments.all && all > kShownParameters) shares.resize(kShownParameters);
  std::cout << "step " << removal.step.name() << " twice from its recorded state: as recorded ("
            << (step.whole.identical() ? "identical" : "NOT identical")
            << "), then\nwithout sample " << removal.sample << ". Held: scale 2^-"
            << step.whole.outcome.result.scale << ", weights of the loss, advantages.\n"
            << "What the sample had in the gradients, exact:\n";
  for (const Share& s : shares) {
    std::cout << formatted("  %-48s norm %.3e  %lld of %lld\n", s.parameter.c_str(), s.norm,
                           static_cast<long long>(s.touched), static_cast<long long>(s.elements));
  }
  if (shares.size() < all) {
    std::cout << "  and " << all - shares.size() << " more parameters (--all lists them)\n";
  }
}

std::string json_of(const Removal& removal, const StepWithout& step, const std::string& dump,
                    const std::vector<Share>& shares) {
  JsonLine out;
  out.text("schema", "rlreplay.without_sample/1").text("dump", dump);
  out.text("step", removal.step.name()).integer("sample", static_cast<int64_t>(removal.sample));
  out.boolean("identical", step.whole.identical());
  out.integer("scale", step.whole.outcome.result.scale);
  out.number("grad_norm", step.whole.outcome.result.grad_norm);
  out.number("grad_norm_without", step.without.result.grad_norm);
  std::string list;
  for (const Share& s : shares) {
    JsonLine line;
    line.text("parameter", s.parameter).number("norm", s.norm);
    line.integer("elements", s.elements).integer("touched", s.touched);
    list += (list.empty() ? "" : ", ") + line.str();
  }
  return out.json("gradients", "[" + list + "]").str();
}

}  // namespace

int train_without(const TrainArguments& arguments, const RecordedRun& record,
                  const RunOptions& options) {
  check_alone(arguments, options);
  const StepRange range = parse_steps(arguments.steps, record.steps());
  const Removal removal = find_removal(record, range, *arguments.without_sample);
  Machine machine(options);
  const auto model = recorded_model(record);
  Trainer trainer(machine.runtime(), options, *model,
                  {.longest_prompt = longest_prompt(record, removal.step.rollout)});
  std::vector<StepOutcome> later;
  const StepWithout step =
      remove_sample(record, options, removal, range.last, trainer, machine.pool(),
                    [&](const ReplayedStep& taken) { later.push_back(taken.outcome); });
  StepLines lines(arguments.json);
  lines.add(step.whole.outcome);
  lines.add(step.without);
  for (const StepOutcome& outcome : later) lines.add(outcome);
  const auto shares = shares_of(trainer.backend().parameters(), step);
  if (arguments.json) {
    std::cout << json_of(removal, step, record.path(), shares) << std::endl;
  } else {
    print_removal(arguments, removal, step, shares);
    if (!later.empty()) std::cout << "the steps behind it ran freely from the weights it left\n";
  }
  return step.whole.identical() ? 0 : 1;
}

}  // namespace rlreplay::replay
