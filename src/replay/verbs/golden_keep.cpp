#include <algorithm>
#include <iostream>
#include <utility>

#include "src/base/error.h"
#include "src/replay/gate/environment.h"
#include "src/replay/gate/golden_lock.h"
#include "src/replay/gate/place.h"
#include "src/replay/run/machine.h"
#include "src/replay/verbs/golden_parts.h"

namespace rlreplay::replay {
namespace {

constexpr int kMostRepeats = 1000;

/// What a file's run gives, as often as asked.
/// Errors: kIncomplete where it gives nothing; kEnvironment for values beyond the tolerances.
std::vector<GoldenEntries> runs_of(const gate::Golden& golden, const GoldenArguments& arguments,
                                   const std::string& path) {
  const std::optional<RunOptions> options = options_now(golden, arguments, path);
  std::vector<GoldenEntries> out = {golden.values};
  for (int i = 0; i < arguments.repeat; ++i) {
    gate::Observation now = observe(golden, options, arguments, path, false);
    if (!now.problem.empty()) throw Error(ErrorCode::kIncomplete, now.problem, path);
    const auto apart = gate::differences(golden.tolerances, golden.values, now.values);
    if (!std::ranges::all_of(apart, &gate::JudgedDifference::within)) {
      throw Error(ErrorCode::kEnvironment,
                  "its run gives values beyond the tolerances, which say nothing of noise: check "
                  "it first",
                  path);
    }
    out.push_back(std::move(now.values));
  }
  return out;
}

/// Returns whether the file has a tolerance. Errors: kIncomplete where it was changed meanwhile.
bool tighten(const GoldenArguments& arguments, const std::string& path) {
  const std::string state = gate::state_of(path);
  gate::Golden golden = gate::read(path);
  if (golden.tolerances.empty()) return false;
  const std::vector<gate::Tolerance> before = golden.tolerances;
  golden.tolerances = gate::tightened(before, runs_of(golden, arguments, path));
  const gate::GoldenLock lock({path});
  gate::check_unchanged(path, state);
  for (const gate::Tolerance& old : before) {
    const auto now = std::ranges::find(golden.tolerances, old.keys, &gate::Tolerance::keys);
    const bool gone = now == golden.tolerances.end();
    std::cout << path << ": tolerance of " << old.keys << ": " << to_string(old);
    if (gone || *now != old) std::cout << " -> " << (gone ? "exact" : to_string(*now));
    std::cout << '\n';
  }
  if (golden.tolerances != before) gate::write(path, golden);
  return true;
}

/// Errors: kUsage for one of the three options beside --lift.
void check_lift(const GoldenArguments& arguments) {
  const std::pair<const char*, std::string> others[] = {
      {"--until", arguments.until}, {"--owner", arguments.owner}, {"--reason", arguments.reason}};
  for (const auto& [name, value] : others) {
    if (value.empty()) continue;
    throw Error(ErrorCode::kUsage, std::string("--lift ends a quarantine and takes no ") + name +
                                       ": leave out one of the two");
  }
}

/// What the three options say.
std::optional<gate::Quarantine> given_quarantine(const GoldenArguments& arguments) {
  if (arguments.lift) {
    check_lift(arguments);
    return std::nullopt;
  }
  const gate::Quarantine out = gate::quarantine_of(
      {{"until", arguments.until}, {"owner", arguments.owner}, {"reason", arguments.reason}},
      "--until DATE --owner NOTE --reason WHY");
  if (!gate::holds(out, gate::today())) {
    throw Error(ErrorCode::kUsage,
                "the quarantine would end on " + out.until + ", before today, " + gate::today() +
                    ": name a day that comes",
                "--until");
  }
  return out;
}

}  // namespace

int golden_tighten(const GoldenArguments& arguments) {
  const std::vector<std::string> files = gate::golden_files(arguments.paths);
  check_may_write();
  if (arguments.repeat < 1 || arguments.repeat > kMostRepeats) {
    throw Error(ErrorCode::kUsage,
                "--repeat is from 1 to 1000, not " + std::to_string(arguments.repeat));
  }
  size_t loose = 0;
  const auto classes = gate::classes_now(computing({}));
  for (const auto& choice : gate::choose(files, classes)) {
    if (choice.path.empty()) continue;
    loose += tighten(arguments, choice.path) ? 1 : 0;
  }
  if (loose == 0) std::cout << "no golden file of this machine has a tolerance\n";
  return 0;
}

int golden_quarantine(const GoldenArguments& arguments) {
  const std::vector<std::string> files = gate::golden_files(arguments.paths);
  check_may_write();
  const std::optional<gate::Quarantine> quarantine = given_quarantine(arguments);
  const gate::GoldenLock lock(files);
  std::vector<gate::Golden> goldens;  // all of them are read before the first is written
  for (const std::string& path : files) goldens.push_back(gate::read(path));
  for (size_t i = 0; i < files.size(); ++i) {
    goldens[i].quarantine = quarantine;
    gate::write(files[i], goldens[i]);
    std::cout << files[i] << ": "
              << (quarantine ? "in quarantine " + to_string(*quarantine) : "in no quarantine")
              << '\n';
  }
  return 0;
}

}  // namespace rlreplay::replay
