#include "src/replay/verbs/capture.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "format/foreign/framework.h"
#include "src/base/error.h"
#include "src/replay/verbs/capture_wrapped.h"
#include "src/replay/verbs/value_checks.h"
#include "src/replay/verbs/verb.h"

namespace rlreplay::replay {
namespace {

constexpr Section kCaptureSections[] = {
    Section::kModel,     Section::kPrompts,   Section::kRollout, Section::kSchedule,
    Section::kObjective, Section::kOptimizer, Section::kMachine, Section::kRecord};

int wrap(const CaptureArguments& arguments) {
  if (arguments.resume || !arguments.flags.command_line().empty()) {
    throw Error(ErrorCode::kUsage,
                "with --wrap the options of the run are the command's own, behind --; of "
                "rlreplay's there are -o, --force, --dry-run and --json");
  }
  return capture_wrapped({arguments.wrap, arguments.command, arguments.output, arguments.force,
                          arguments.json, arguments.dry_run});
}

int capture(const CaptureArguments& arguments) {
  if (arguments.output.empty() && !arguments.flags.print_config()) {
    throw Error(ErrorCode::kUsage, "name the dump to be made: -o DUMP");
  }
  if (!arguments.wrap.empty()) return wrap(arguments);
  if (arguments.dry_run) {
    throw Error(ErrorCode::kUsage, "--dry-run is for --wrap; --print-config shows the options");
  }
  if (!arguments.command.empty()) {
    throw Error(ErrorCode::kUsage, "a command behind -- is for --wrap slime or --wrap miles");
  }
  if (arguments.resume && arguments.force) {
    throw Error(ErrorCode::kUsage, "--resume keeps the dump, --force replaces it: give one");
  }
  if (arguments.check && !arguments.resume) {
    throw Error(ErrorCode::kUsage, "--check is for --resume: it reads what the dump has");
  }
  return capture_run(arguments);
}

}  // namespace

void add_capture(CLI::App& program, VerbRun& chosen,
                 const std::vector<std::string>& behind_dashes) {
  auto arguments = std::make_shared<CaptureArguments>();
  arguments->command = behind_dashes;
  CLI::App* verb = program.add_subcommand(
      "capture", "Run on-policy training and record all that a replay needs");
  verb->add_option("-o,--output", arguments->output, "the dump to be made");
  verb->add_option("--wrap", arguments->wrap,
                   "run another framework's launcher, the command behind --, with the recipe of "
                   "docs/wrap.md, and import what it dumps: slime|miles")
      ->check(one_of(foreign::kDialects));
  verb->add_flag("--dry-run", arguments->dry_run,
                 "with --wrap: print the whole command and what of yours is kept, run nothing");
  verb->add_flag("--resume", arguments->resume,
                 "go on with a capture that was killed; its options are in the dump");
  verb->add_flag(
      "--check", arguments->check,
      "with --resume: read all stored units and their values before, also of a sealed dump");
  verb->add_flag("--force", arguments->force, "replace an older dump, once the new one is whole");
  arguments->flags.add(*verb, kCaptureSections);
  verb->add_flag("--json", arguments->json, "an object a step instead of a table");
  verb->footer(
      "A resumed capture keeps every step that was stored, and ends in the root that it would "
      "have\n"
      "had undisturbed; a dump that is complete is left as it is, with exit code 0, and with "
      "--save\n"
      "its trained weights are computed again from the last recorded state. A recorded\n"
      "--reward-command and --save have to be given again: nothing runs because a dump says so.\n"
      "A step is shown once it is being stored, at most a second late; Ctrl-C and SIGTERM store\n"
      "what was shown, a second signal does not wait. With --force the new dump grows in\n"
      "DUMP.rlreplay-new/content. logp_diff, training against rollout, is 0 in a rollout's first\n"
      "step with the portable kernels (not with --kernels torch); weights of its later ones are\n"
      "others than those that sampled.\n\n"
      "Examples:\n  rlreplay capture --model demo --steps 4 -o dump/\n"
      "  rlreplay capture --model demo --steps 4 --record ops+values -o dump/\n"
      "  rlreplay capture --resume -o dump/\n"
      "  rlreplay capture --model Qwen2.5-0.5B --prompts prompts.jsonl --reward gsm8k \\\n"
      "      --rollout-batch-size 4 --n-samples-per-prompt 8 --steps 2 -o dump/\n"
      "  rlreplay capture --wrap slime --dry-run -o dump/ -- ./run.sh\n"
      "  rlreplay capture --wrap slime -o dump/ -- python3 train.py --seed 7 ...");
  verb->callback([=, &chosen] { chosen = [=] { return capture(*arguments); }; });
}

}  // namespace rlreplay::replay
