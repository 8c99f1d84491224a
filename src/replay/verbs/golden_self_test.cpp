#include <algorithm>
#include <iostream>
#include <utility>

#include "src/base/error.h"
#include "src/base/json_line.h"
#include "src/base/words.h"
#include "src/replay/gate/place.h"
#include "src/replay/gate/self_test.h"
#include "src/replay/rerun/golden_run.h"
#include "src/replay/run/machine.h"
#include "src/replay/verbs/golden_parts.h"
#include "src/replay/verbs/golden_report.h"

namespace rlreplay::replay {
namespace {

using Level = gate::Said::Level;

/// What a file's test gives, for the reports of continuous integration and as JSON.
struct Tested {
  gate::Said said;
  std::string json = {};
};

/// What all of them say as JSON.
JsonLine json_of(const gate::Said& said, const std::string& reason, size_t planted,
                 const std::vector<std::string>& unseen) {
  JsonLine out;
  out.text("schema", "rlreplay.golden.self_test/1").text("file", said.path);
  out.text("outcome", said.outcome).boolean("passes", said.level != Level::kError);
  out.text("reason", reason).integer("planted", static_cast<int64_t>(planted));
  out.json("unseen", json_list(unseen));
  return out;
}

/// Plants changes in the values of a file, without its run, and says how many no gate would see.
/// It fails where one is, and where there is none to plant.
Tested test_values(const gate::Golden& golden, const std::string& path) {
  const gate::SelfTest test = gate::self_test(golden);
  const bool seen = test.planted != 0 && test.unseen.empty();
  gate::Said out{.path = path, .outcome = seen ? "seen" : "unseen", .text = ""};
  out.level = seen ? Level::kFine : Level::kError;
  out.text = path + ": " + counted(test.planted, "planted change") + ", " +
             std::to_string(test.unseen.size()) + " unseen\n";
  for (const std::string& key : test.unseen) out.text += "  unseen: " + key + '\n';
  const std::string json = json_of(out, "", test.planted, test.unseen).str();
  return {std::move(out), json};
}

/// Runs with the difference of --inject planted where its event is computed, and says whether the
/// gate sees it. Errors: kUsage for a run that is a command, kUnsupported for stock kernels.
Tested test_planted(const GoldenArguments& arguments, const gate::Golden& golden,
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
  gate::Said out{.path = path, .outcome = seen ? "seen" : "unseen", .text = ""};
  out.level = seen ? Level::kFine : Level::kError;
  std::vector<std::string> unseen;
  if (!seen) unseen.push_back(arguments.inject);
  JsonLine json = json_of(out, "", 1, unseen);
  json.text("judged", gate::to_string(j.outcome));
  json.integer("different", static_cast<int64_t>(j.differences.size()));
  json.integer("values", static_cast<int64_t>(j.values));
  if (seen) out.outcome = gate::to_string(j.outcome);
  out.text = path + ": planted " + arguments.inject + ", " + out.outcome + ", " +
             std::to_string(j.differences.size()) + " of " + std::to_string(j.values) +
             " values differ\n";
  return {std::move(out), json.str()};
}

/// A file that is not tested: in quarantine, or for an error.
Tested not_tested(const std::string& path, const std::string& before, const std::string& reason,
                  Level level) {
  gate::Said out{.path = path,
                 .outcome = "not tested",
                 .text = path + ": not tested" + before + reason + '\n',
                 .level = level,
                 .judged = level != Level::kError};
  const std::string json = json_of(out, reason, 0, {}).str();
  return {std::move(out), json};
}

Tested not_tested(const std::string& path, const Error& error) {
  return not_tested(path, ": ", reason_at(path, error), Level::kError);
}

/// Tests a file. A change of one in quarantine passes, whatever it is, so that there is no test.
Tested test_file(const GoldenArguments& arguments, const std::string& path) {
  const gate::Golden golden = gate::read(path);
  if (gate::holds(golden.quarantine, gate::today())) {
    return not_tested(path, ", ", "in quarantine " + to_string(*golden.quarantine),
                      Level::kWarning);
  }
  return arguments.inject.empty() ? test_values(golden, path)
                                  : test_planted(arguments, golden, path);
}

void print(const GoldenArguments& arguments, const Tested& tested) {
  const std::string text = arguments.json ? tested.json + '\n' : tested.said.text;
  std::cout << (arguments.github ? gate::without_commands(text) : text);
}

}  // namespace

int golden_self_test(const GoldenArguments& arguments) {
  ReportFiles reports(arguments);
  const gate::FoundFiles found = gate::find_golden_files(arguments.paths);
  std::vector<Tested> tested;
  std::vector<Error> errors = found.unread;
  for (const Error& error : errors) tested.push_back(not_tested(error.where(), error));
  for (const std::string& path : found.all()) {
    try {
      tested.push_back(test_file(arguments, path));
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kInterrupted) throw;
      errors.push_back(error);
      tested.push_back(not_tested(path, error));
    }
  }
  const bool one_error = tested.size() == 1 && !errors.empty();
  std::vector<gate::Said> said;
  for (const Tested& t : tested) {
    if (!one_error) print(arguments, t);
    said.push_back(t.said);
  }
  reports.write(said);
  if (one_error) throw errors.front();
  const bool unseen = std::ranges::any_of(
      said, [](const gate::Said& s) { return s.judged && s.level == Level::kError; });
  return unseen ? 1 : errors.empty() ? 0 : exit_code(errors.front().code());
}

}  // namespace rlreplay::replay
