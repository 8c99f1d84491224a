#include <algorithm>
#include <filesystem>
#include <iostream>

#include <unistd.h>

#include "src/base/error.h"
#include "src/base/shell.h"
#include "src/replay/gate/environment.h"
#include "src/replay/gate/pending.h"
#include "src/replay/gate/place.h"
#include "src/replay/verbs/golden_parts.h"

namespace rlreplay::replay {
namespace {

constexpr size_t kShownReview = 10;

/// Errors: kIncomplete where none is pending.
std::vector<std::string> pending_of(const std::vector<std::string>& paths) {
  std::vector<std::string> out;
  for (const std::string& file : gate::golden_files(paths)) {
    if (gate::pending(file) != gate::Pending::kNone) out.push_back(file);
  }
  if (out.empty()) {
    throw Error(ErrorCode::kIncomplete,
                "nothing is pending: rlreplay golden check leaves what it finds different",
                paths.front());
  }
  return out;
}

void accept(const std::string& path, gate::Golden candidate, const std::string& reason) {
  candidate.about["reason"] = reason;
  gate::write(path, candidate);
  gate::drop_candidate(path);
  std::cout << "accepted: " << path << '\n';
}

void reject(const std::string& path) {
  gate::drop_candidate(path);
  std::cout << "rejected: " << path << '\n';
}

/// `4c309745a492`, or `4c309745a492 with changes`
std::string short_commit(const std::string& commit) {
  return commit.substr(0, 12) + (commit.ends_with("-changed") ? " with changes" : "");
}

/// What a candidate would change.
std::string candidate_text(const std::string& path, const gate::Golden& candidate, size_t limit) {
  const gate::Golden golden = gate::read(path);
  const auto differences = gate::differences(golden.tolerances, golden.values, candidate.values);
  std::string out = path + ": " + std::to_string(differences.size()) + " of " +
                    std::to_string(golden.values.size()) + " values\n" +
                    differences_text(differences, limit);
  for (const std::string& line :
       gate::environment_difference(golden.environment, candidate.environment)) {
    out += "  environment: " + line + '\n';
  }
  for (const std::string& line : gate::environment_difference(golden.inputs, candidate.inputs)) {
    out += "  input: " + line + '\n';
  }
  const std::string from = gate::about(golden, "commit"), to = gate::about(candidate, "commit");
  if (from != to && !from.empty())
    out += "  commits: " + short_commit(from) + ".." + short_commit(to) + '\n';
  return out;
}

/// A line of the terminal; nothing at its end.
std::optional<std::string> ask(const std::string& question) {
  std::cout << question << std::flush;
  std::string line;
  if (!std::getline(std::cin, line)) return std::nullopt;
  return line;
}

enum class Choice { kAccept, kReject, kSkip, kQuit };

Choice ask_choice() {
  while (true) {
    const auto said = ask("  [a]ccept, [r]eject, [s]kip or [q]uit? ");
    if (!said || *said == "q") return Choice::kQuit;
    if (*said == "a") return Choice::kAccept;
    if (*said == "r") return Choice::kReject;
    if (*said == "s") return Choice::kSkip;
  }
}

/// Whether to go on.
bool review_one(const std::string& path) {
  if (gate::pending(path) == gate::Pending::kStale) {
    std::cout << path << ": has changed since its check: check it again\n";
    return true;
  }
  const gate::Golden candidate = gate::read_candidate(path);
  std::cout << candidate_text(path, candidate, kShownReview);
  switch (ask_choice()) {
    case Choice::kAccept:
      while (true) {
        const auto reason = ask("  why do bits change? ");
        if (!reason) return false;
        if (reason->empty()) continue;
        accept(path, candidate, *reason);
        return true;
      }
    case Choice::kReject:
      reject(path);
      return true;
    case Choice::kSkip:
      return true;
    case Choice::kQuit:
      return false;
  }
  return false;
}

}  // namespace

void check_may_write() {
  if (!gate::in_ci()) return;
  throw Error(
      ErrorCode::kUsage,
      "nothing is accepted where CI is set: review on your own machine, and commit the file");
}

int golden_accept(const GoldenArguments& arguments) {
  const std::vector<std::string> files = pending_of(arguments.paths);
  check_may_write();
  if (arguments.reason.empty()) {
    throw Error(ErrorCode::kUsage, "say why bits change: --reason WHY is kept in the file");
  }
  std::vector<gate::Golden> candidates;  // all of them are read before the first is accepted
  for (const std::string& path : files) candidates.push_back(gate::read_candidate(path));
  for (size_t i = 0; i < files.size(); ++i) accept(files[i], candidates[i], arguments.reason);
  return 0;
}

int golden_reject(const GoldenArguments& arguments) {
  for (const std::string& path : pending_of(arguments.paths)) reject(path);
  return 0;
}

int golden_review(const GoldenArguments& arguments) {
  check_may_write();
  if (::isatty(STDIN_FILENO) == 0) {
    throw Error(
        ErrorCode::kUsage,
        "a review asks on a terminal: without one, rlreplay golden accept FILE --reason WHY, "
        "or rlreplay golden reject FILE");
  }
  for (const std::string& path : pending_of(arguments.paths)) {
    if (!review_one(path)) break;
  }
  return 0;
}

}  // namespace rlreplay::replay
