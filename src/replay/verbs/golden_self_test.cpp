#include <algorithm>
#include <iostream>

#include "src/base/error.h"
#include "src/base/words.h"
#include "src/replay/gate/place.h"
#include "src/replay/gate/self_test.h"
#include "src/replay/rerun/golden_run.h"
#include "src/replay/run/machine.h"
#include "src/replay/verbs/golden_parts.h"
#include "src/replay/verbs/golden_report.h"

namespace rlreplay::replay {
namespace {

/// Plants changes in the values of a file, without its run, and says how many no gate would see.
/// It fails where one is, and where there is none to plant.
gate::Said test_values(const gate::Golden& golden, const std::string& path) {
  const gate::SelfTest test = gate::self_test(golden);
  const bool seen = test.planted != 0 && test.unseen.empty();
  gate::Said out{.path = path, .outcome = seen ? "seen" : "unseen", .text = ""};
  out.level = seen ? gate::Said::Level::kFine : gate::Said::Level::kError;
  out.text = path + ": " + counted(test.planted, "planted change") + ", " +
             std::to_string(test.unseen.size()) + " unseen\n";
  for (const std::string& key : test.unseen) out.text += "  unseen: " + key + '\n';
  return out;
}

/// Runs with the difference of --inject planted where its event is computed, and says whether the
/// gate sees it. Errors: kUsage for a run that is a command, kUnsupported for stock kernels.
gate::Said test_planted(const GoldenArguments& arguments, const gate::Golden& golden,
                        const std::string& path) {
  const Injection injection = parse_injection(arguments.inject);
  const std::optional<RunOptions> options = options_now(golden, arguments, path);
  if (!options) {
    throw Error(ErrorCode::kUsage,
                "--inject plants in a run of rlreplay, and the file's is a command", path);
  }
  if (options->kernels != "portable") {
    throw Error(ErrorCode::kUnsupported, "--inject plants in runs of --kernels portable", path);
  }
  Machine machine(*options, own_rank_host(*options));
  const GoldenEntries now = golden_run(machine.runtime(), *options, injection);
  const gate::GoldenVerdict j =
      gate::judge(golden, {.environment = golden.environment, .values = now});
  const bool seen = !gate::passes(j.outcome, false);
  gate::Said out{
      .path = path, .outcome = seen ? std::string(to_string(j.outcome)) : "unseen", .text = ""};
  out.level = seen ? gate::Said::Level::kFine : gate::Said::Level::kError;
  out.text = path + ": planted " + arguments.inject + ", " + out.outcome + ", " +
             std::to_string(j.differences.size()) + " of " + std::to_string(j.values) +
             " values differ\n";
  return out;
}

/// Tests a file. A change of one in quarantine passes, whatever it is, so that there is no test.
gate::Said test_file(const GoldenArguments& arguments, const std::string& path) {
  const gate::Golden golden = gate::read(path);
  if (gate::holds(golden.quarantine, gate::today())) {
    return {.path = path,
            .outcome = "not tested",
            .text = path + ": not tested, in quarantine " + to_string(*golden.quarantine) + '\n',
            .level = gate::Said::Level::kWarning};
  }
  return arguments.inject.empty() ? test_values(golden, path)
                                  : test_planted(arguments, golden, path);
}

gate::Said not_tested(const std::string& path, const Error& error) {
  return {.path = path,
          .outcome = "not tested",
          .text = path + ": not tested: " + reason_at(path, error) + '\n',
          .level = gate::Said::Level::kError,
          .judged = false};
}

}  // namespace

int golden_self_test(const GoldenArguments& arguments) {
  ReportFiles reports(arguments);
  const gate::FoundFiles found = gate::find_golden_files(arguments.paths);
  std::vector<gate::Said> said;
  std::vector<Error> errors = found.unread;
  for (const Error& error : errors) said.push_back(not_tested(error.where(), error));
  for (const std::string& path : found.all()) {
    try {
      said.push_back(test_file(arguments, path));
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kInterrupted) throw;
      errors.push_back(error);
      said.push_back(not_tested(path, error));
    }
  }
  const bool one_error = said.size() == 1 && !errors.empty();
  for (const gate::Said& s : said) {
    if (!one_error) std::cout << (arguments.github ? gate::without_commands(s.text) : s.text);
  }
  reports.write(said);
  if (one_error) throw errors.front();
  const bool unseen = std::ranges::any_of(
      said, [](const gate::Said& s) { return s.judged && s.level == gate::Said::Level::kError; });
  return unseen ? 1 : errors.empty() ? 0 : exit_code(errors.front().code());
}

}  // namespace rlreplay::replay
