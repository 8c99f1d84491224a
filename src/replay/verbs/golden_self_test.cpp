#include <iostream>

#include "src/base/error.h"
#include "src/base/words.h"
#include "src/replay/gate/place.h"
#include "src/replay/gate/self_test.h"
#include "src/replay/rerun/golden_run.h"
#include "src/replay/run/machine.h"
#include "src/replay/verbs/golden_parts.h"

namespace rlreplay::replay {
namespace {

/// Plants changes in the values of a file, without its run, and says how many no gate would see.
/// Returns whether each is seen and there is one.
bool sees_values(const std::string& path) {
  const gate::SelfTest test = gate::self_test(gate::read(path));
  std::cout << path << ": " << counted(test.planted, "planted change") << ", " << test.unseen.size()
            << " unseen\n";
  for (const std::string& key : test.unseen) std::cout << "  unseen: " << key << '\n';
  return test.planted != 0 && test.unseen.empty();
}

/// Runs with the difference of --inject planted where its event is computed, and says whether the
/// gate sees it. Errors: kUsage for a run that is a command, kUnsupported for stock kernels.
bool sees_planted(const GoldenArguments& arguments, const std::string& path) {
  const gate::Golden golden = gate::read(path);
  const Injection injection = parse_injection(arguments.inject);
  const std::optional<RunOptions> options = options_now(golden, arguments, path);
  if (!options) {
    throw Error(ErrorCode::kUsage,
                "--inject plants in a run of rlreplay, and the file's is a command", path);
  }
  if (options->kernels != "portable") {
    throw Error(ErrorCode::kUnsupported, "--inject plants in runs of --kernels portable", path);
  }
  Machine machine(*options);
  const GoldenEntries now = golden_run(machine.runtime(), *options, injection);
  const gate::GoldenVerdict j =
      gate::judge(golden, {.environment = golden.environment, .values = now});
  const bool seen = !gate::passes(j.outcome, false);
  std::cout << path << ": planted " << arguments.inject << ", "
            << (seen ? std::string(to_string(j.outcome)) : "unseen") << ", " << j.differences.size()
            << " of " << j.values << " values differ\n";
  return seen;
}

}  // namespace

int golden_self_test(const GoldenArguments& arguments) {
  bool seen = true;
  for (const std::string& path : gate::golden_files(arguments.paths)) {
    seen = (arguments.inject.empty() ? sees_values(path) : sees_planted(arguments, path)) && seen;
  }
  return seen ? 0 : 1;
}

}  // namespace rlreplay::replay
