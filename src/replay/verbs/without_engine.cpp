#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <string>

#include "src/base/error.h"
#include "src/replay/compare/step_difference.h"
#include "src/replay/verbs/capture.h"
#include "src/replay/verbs/engine_half.h"
#include "src/replay/verbs/print_operation.h"

namespace rlreplay::replay {
namespace {

constexpr char kSentence[] =
    "this build looks at dumps and computes nothing: the .deb, or a build with "
    "-DRLREPLAY_ENGINE=ON, can";

[[noreturn]] int refuse(const std::string& verb) {
  throw Error(ErrorCode::kUnsupported, kSentence, "rlreplay " + verb);
}

void add_refusing(CLI::App& program, const std::string& name, const std::string& what) {
  CLI::App* verb = program.add_subcommand(name, what + " (not in this build)");
  verb->preparse_callback([name](size_t) { refuse(name); });  // whatever its words are
}

}  // namespace

void add_train(CLI::App& program, VerbRun&) {
  add_refusing(program, "train", "Train again from a dump and compare with the record");
}

void add_rollout(CLI::App& program, VerbRun&) {
  add_refusing(program, "rollout", "Generate the rollouts of a dump again");
}

void add_score(CLI::App& program, VerbRun&) {
  add_refusing(program, "score", "Log-probabilities of given tokens");
}

void add_golden(CLI::App& program, VerbRun&) {
  add_refusing(program, "golden", "Write or check a golden file");
}

void add_why(CLI::App& program, VerbRun&) {
  add_refusing(program, "why", "Follow one number of a recorded step back");
}

void add_layouts(CLI::App& program, VerbRun&) {
  add_refusing(program, "layouts", "Take one recorded step again in every parallel layout");
}

std::optional<int> serve_launched_rank(std::string_view) { return std::nullopt; }

std::chrono::milliseconds time_for_reason() { return {}; }

bool print_operation(const OperationQuestion&) {
  throw Error(ErrorCode::kUnsupported, kSentence, "rlbisect op");
}

int capture_run(const CaptureArguments&) { refuse("capture without --wrap"); }

ElementFinder element_finder() {
  return [](const RecordedRun&, const RecordedRun&, StepDifference& difference) {
    return lacks_element(difference) ? std::string(kSentence) : std::string();
  };
}

}  // namespace rlreplay::replay
