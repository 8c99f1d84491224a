#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <limits>
#include <set>

#include "src/base/error.h"
#include "src/base/number_text.h"
#include "src/base/own_program.h"
#include "src/base/process.h"
#include "src/base/shell.h"
#include "src/replay/gate/recorded_commit.h"
#include "src/replay/verbs/golden_parts.h"

namespace fs = std::filesystem;

namespace rlreplay::replay {
namespace {

/// What a search holds numbers to, as far as rlbisect has words for a file's tolerances.
struct SearchBound {
  std::vector<std::string> options = {};  // none: bit for bit
  bool ignores_tolerances = false;        // so that it asks another question than the gate
};

constexpr const char* kIgnored =
    "search: bit for bit, the file's tolerances are ignored: rlbisect has one absolute bound for "
    "all\n  numbers, held to what the recorded commit gives here, so that the first commit that "
    "changes a bit\n  is found, not the first beyond them\n";
constexpr double kBuildSeconds = 3600;
constexpr std::string_view kConfirmed = "\nconfirmed  ";
constexpr const char* kOfBits = "the first change of bits, tolerances ignored: ";

/// The name of the number of `step 3 NAME` or `metric NAME`, as rlbisect calls it; empty where it
/// would not be called so.
std::string metric_of(const std::string& key) {
  constexpr std::string_view kStep = "step ", kMetric = "metric ";
  size_t begin = std::string::npos;
  if (key.starts_with(kMetric)) begin = kMetric.size();
  if (key.starts_with(kStep)) {
    const size_t blank = key.find(' ', kStep.size());
    if (blank != key.npos) begin = blank + 1;
  }
  const std::string name = begin == key.npos ? "" : key.substr(begin);
  return name.find_first_of("*?[\\") == name.npos ? name : "";  // which takes patterns, too
}

/// How far a value may lie from the recorded one, as an absolute bound: 0 is exact; nothing where
/// its tolerance is in another unit.
std::optional<double> absolute_bound(const gate::Golden& golden, const std::string& key,
                                     const std::string& value) {
  double out = std::numeric_limits<double>::infinity();
  for (const gate::Tolerance& tolerance : golden.tolerances) {
    if (!golden_number(value) || !gate::covers(tolerance, key)) continue;
    if (tolerance.unit != gate::Tolerance::Unit::kAbsolute) return std::nullopt;
    out = std::min(out, tolerance.bound);
  }
  return std::isinf(out) ? 0 : out;
}

/// The one bound of all values of these names; nothing where there is none.
std::optional<double> common_bound(const gate::Golden& golden, const std::set<std::string>& names) {
  std::optional<double> out;
  for (const auto& [key, value] : golden.values) {
    if (!names.contains(metric_of(key))) continue;
    const std::optional<double> bound = absolute_bound(golden, key, value);
    if (!bound || bound != out.value_or(*bound)) return std::nullopt;
    out = bound;
  }
  return out;
}

/// The names of the numbers that lie beyond their tolerances, and how far they may. In another
/// environment that is no bound of a search, which holds numbers to those of the recorded commit
/// here, and not to the recorded ones.
SearchBound bound_of(const gate::Golden& golden, const gate::GoldenVerdict& verdict) {
  if (golden.tolerances.empty()) return {};
  const auto& differences = verdict.differences;
  std::set<std::string> names;
  for (const gate::JudgedDifference& d : differences) {
    if (d.within) continue;
    if (d.bits.key == "content" && !d.tolerance) return {};  // a dump is compared as one
    names.insert(d.bits.recorded && d.bits.now ? metric_of(d.bits.key) : "");
  }
  if (names.empty()) return {};  // drift: every bit of it does not pass
  const std::optional<double> bound =
      names.contains("") ? std::nullopt : common_bound(golden, names);
  const bool weights = names.contains("weights");  // has a meaning of its own there, and is exact
  if (!bound || (weights && *bound > 0)) return {.ignores_tolerances = true};
  if (*bound > 0 && !verdict.environment.empty()) return {.ignores_tolerances = true};
  SearchBound out;
  for (const std::string& name : names) out.options.push_back("--metric=" + name);
  if (*bound > 0) out.options.push_back("--tolerance=" + shortest_of(*bound));
  return out;
}

/// The command as it is run in a checkout of its own: where in it the check runs it here.
std::string command_in(const std::string& folder, const std::string& command) {
  if (folder == ".") return command;
  return "cd " + shell_word("./" + folder) + " || exit 125; " + command;
}

/// Why there is nothing to search; empty where there is.
std::string problem_of_search(const gate::Golden& golden,
                              const std::optional<gate::Checkout>& checkout) {
  if (std::string why = problem_of_commit(golden); !why.empty()) return why;
  if (!checkout) return "the file lies in no checkout of git";
  if (checkout->commit != gate::about(golden, "commit")) return "";
  return "the recorded commit is checked out, so that what is not committed made the change";
}

/// What rlbisect prints, told apart from an answer to the gate's question where it is none.
std::string told(std::string output, const SearchBound& bound) {
  const size_t confirmed = bound.ignores_tolerances ? output.find(kConfirmed) : output.npos;
  if (confirmed != output.npos) output.insert(confirmed + kConfirmed.size(), kOfBits);
  return output;
}

}  // namespace

void search_commit(const gate::Golden& golden, const GoldenArguments& arguments,
                   const std::string& path, const gate::GoldenVerdict& verdict) {
  std::cout << std::flush;  // the verdict is there before a search that may be cut short
  const auto checkout = gate::find_checkout(path);
  std::string problem = problem_of_search(golden, checkout);
  const std::string from = fs::absolute(path).parent_path().string();
  const auto folder = gate::working_folder(from);
  if (problem.empty() && !folder) problem = "the working folder is not in the file's checkout";
  if (!problem.empty()) {
    std::cout << "no search: " << problem << '\n' << std::flush;
    return;
  }
  const SearchBound bound = bound_of(golden, verdict);
  if (bound.ignores_tolerances) std::cout << kIgnored << std::flush;
  Command command{
      {program_beside("rlbisect").string(), gate::about(golden, "commit") + ".." + checkout->commit,
       "--run", command_in(*folder, command_of(golden, arguments, path))},
      from};
  auto& words = command.arguments;
  words.insert(words.end(), bound.options.begin(), bound.options.end());
  double seconds = arguments.time_limit;
  if (const std::string build = build_of(golden, arguments); !build.empty()) {
    words.insert(words.end(), {"--build", build});
    seconds += kBuildSeconds;  // rlbisect has one limit for both
  }
  if (arguments.time_limit > 0) {
    words.insert(words.end(), {"--timeout", shortest_of(seconds)});
  }
  ProcessLimits limits;
  limits.time = ProcessLimits::kNoTime;
  const ProcessResult result = run_process(command, "", limits);
  std::cout << (result.output.empty() ? "no search: rlbisect " + result.describe() + '\n'
                                      : told(result.output, bound))
            << std::flush;
}

}  // namespace rlreplay::replay
