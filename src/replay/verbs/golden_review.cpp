#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include <unistd.h>

#include "src/base/error.h"
#include "src/base/number_text.h"
#include "src/base/same_value.h"
#include "src/base/terminal.h"
#include "src/base/words.h"
#include "src/replay/gate/environment.h"
#include "src/replay/gate/golden_lock.h"
#include "src/replay/gate/pending.h"
#include "src/replay/verbs/golden_parts.h"

namespace rlreplay::replay {
namespace {

constexpr size_t kShownReview = 4;  // three lines each: with the question they fit a terminal

/// `4c309745a492`, or `4c309745a492 with changes`
std::string short_commit(const std::string& commit) {
  return commit.substr(0, 12) + (commit.ends_with("-changed") ? " with changes" : "");
}

/// A value as a line of the golden file that goes or comes.
std::string value_line(char sign, const std::optional<std::string>& value) {
  if (!value) return "";
  const std::optional<double> number = golden_number(*value);
  const std::string line =
      std::string("    ") + sign + ' ' + *value + (number ? "  # " + shortest_of(*number) : "");
  return coloured(line, sign == '-' ? Colour::kRed : Colour::kGreen, stdout) + '\n';
}

std::string difference_lines(const gate::JudgedDifference& d) {
  std::string out = "  " + d.bits.key;
  if (d.bits.ulps && std::abs(*d.bits.ulps) < kFarUlps) {
    const int64_t up = *d.bits.ulps;
    out += up < 0 ? "  " + counted(-up, "ulp") + " down" : "  " + counted(up, "ulp") + " up";
  }
  if (d.tolerance) out += (d.within ? ", within " : ", beyond ") + to_string(*d.tolerance);
  return out + '\n' + value_line('-', d.bits.recorded) + value_line('+', d.bits.now);
}

/// A candidate beside the golden file that it would take the place of.
struct Change {
  std::string path, head;  // head: what its first line begins with
  gate::Golden golden, candidate;
  std::vector<gate::JudgedDifference> differences;
  std::string golden_state, state;  // of the golden file and of the candidate's
};

Change change_of(const std::string& path, std::string head) {
  std::string golden_state = gate::state_of(path);
  std::string state = gate::state_of(gate::pending_path(path));
  Change out{.path = path,
             .head = std::move(head),
             .golden = gate::read(path),
             .candidate = gate::read_candidate(path),
             .differences = {},
             .golden_state = std::move(golden_state),
             .state = std::move(state)};
  out.differences =
      gate::differences(out.golden.tolerances, out.golden.values, out.candidate.values);
  // What a tolerance lets pass comes last: a long list is cut.
  std::stable_partition(out.differences.begin(), out.differences.end(),
                        [](const gate::JudgedDifference& d) { return !d.within; });
  return out;
}

std::string change_text(const Change& change, size_t limit) {
  const auto& [path, head, golden, candidate, differences, golden_state, state] = change;
  std::string out = '\n' + head + path + ": " + std::to_string(differences.size()) + " of " +
                    counted(golden.values.size(), "value") + " would change\n";
  const size_t shown = std::min(limit, differences.size());
  for (size_t i = 0; i < shown; ++i) out += difference_lines(differences[i]);
  if (shown < differences.size()) {
    out += "  and " + std::to_string(differences.size() - shown) + " more\n";
  }
  out += begins_line(gate::about(candidate, "begins"));
  const auto add = [&](const char* of, const GoldenEntries& recorded, const GoldenEntries& now) {
    for (const std::string& line : gate::environment_difference(recorded, now)) {
      out += std::string("  ") + of + ": " + line + '\n';
    }
  };
  add("environment", golden.environment, candidate.environment);
  add("input", golden.inputs, candidate.inputs);
  const std::string from = gate::about(golden, "commit"), to = gate::about(candidate, "commit");
  if (from != to && !from.empty())
    out += "  commits: " + short_commit(from) + ".." + short_commit(to) + '\n';
  return out;
}

/// A line of the terminal without blanks around it; nothing at its end.
std::optional<std::string> ask(const std::string& question) {
  std::cout << question << std::flush;
  std::string line;
  if (!std::getline(std::cin, line)) {
    std::cout << '\n';
    return std::nullopt;
  }
  line.erase(0, line.find_first_not_of(" \t\r"));
  line.erase(line.find_last_not_of(" \t\r") + 1);
  return line;
}

constexpr std::array<std::string_view, 5> kAnswers = {"accept", "reject", "skip", "list", "quit"};

/// One of kAnswers, which can be cut anywhere; `quit` at the terminal's end.
std::string_view ask_answer(bool more) {
  const std::string question =
      std::string("  [a]ccept, [r]eject, [s]kip") + (more ? ", [l]ist all" : "") + " or [q]uit? ";
  while (true) {
    const auto said = ask(question);
    if (!said) return "quit";
    const auto meant = std::ranges::find_if(
        kAnswers, [&](std::string_view word) { return !said->empty() && word.starts_with(*said); });
    if (meant != kAnswers.end()) return *meant;
  }
}

/// Sees that a file and its candidate are as they were shown. Errors: kIncomplete.
void check_as_shown(const Change& change) {
  gate::check_unchanged(change.path, change.golden_state);
  gate::check_unchanged(gate::pending_path(change.path), change.state);
}

enum class Reviewed { kAccepted, kRejected, kSkipped, kQuit };

Reviewed review_one(const Change& change) {
  std::cout << change_text(change, kShownReview);
  while (true) {
    const std::string_view answer = ask_answer(change.differences.size() > kShownReview);
    if (answer == "list") std::cout << change_text(change, SIZE_MAX);
    if (answer == "skip") return Reviewed::kSkipped;
    if (answer == "quit") return Reviewed::kQuit;
    if (answer == "reject") {
      const gate::GoldenLock lock({change.path});
      check_as_shown(change);
      reject_candidate(change.path);
      return Reviewed::kRejected;
    }
    if (answer != "accept") continue;
    const auto reason = ask("  why do bits change? (kept in the file; empty: not accepted) ");
    if (!reason) return Reviewed::kQuit;
    if (reason->empty()) continue;
    const gate::GoldenLock lock({change.path});
    check_as_shown(change);
    accept_candidate(change.path, change.candidate, *reason);
    return Reviewed::kAccepted;
  }
}

}  // namespace

int golden_review(const GoldenArguments& arguments) {
  check_may_write();
  if (::isatty(STDIN_FILENO) == 0) {
    throw Error(
        ErrorCode::kUsage,
        "a review asks on a terminal: without one, rlreplay golden accept FILE --reason WHY, "
        "or rlreplay golden reject FILE");
  }
  const std::vector<std::string> files = pending_of(arguments.paths);
  size_t accepted = 0, rejected = 0, gone = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    const gate::Pending candidate = gate::pending(files[i]);
    if (candidate != gate::Pending::kCurrent) {
      const bool none = candidate == gate::Pending::kNone;
      gone += none ? 1 : 0;
      std::cout << '\n'
                << files[i]
                << (none ? ": its candidate is gone: it was accepted or rejected elsewhere\n"
                         : ": has changed since its check: check it again\n");
      continue;
    }
    const std::string of_all = std::to_string(i + 1) + " of " + std::to_string(files.size());
    const Reviewed end = review_one(change_of(files[i], files.size() == 1 ? "" : of_all + ", "));
    accepted += end == Reviewed::kAccepted ? 1 : 0;
    rejected += end == Reviewed::kRejected ? 1 : 0;
    if (end == Reviewed::kQuit) break;
  }
  std::cout << '\n'
            << accepted << " accepted, " << rejected << " rejected, "
            << files.size() - accepted - rejected - gone << " still pending\n";
  return 0;
}

}  // namespace rlreplay::replay
