#include "src/replay/gate/claim.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/replay/gate/recorded_commit.h"

namespace rlreplay::gate {
namespace {

[[noreturn]] void refuse_range(const std::string& range, const std::string& why) {
  throw Error(ErrorCode::kUsage, "--claim " + range + ": " + why);
}

std::string commit_named(const std::string& folder, const std::string& range,
                         const std::string& name) {
  const auto hash =
      ask_git(folder, {"rev-parse", "--verify", "--quiet", "--end-of-options", name + "^{commit}"});
  if (!hash) refuse_range(range, "git knows no commit \"" + name + "\" here");
  return *hash;
}

/// Cuts off what stands before the next NUL.
std::string_view take_field(std::string_view& text) {
  const size_t end = std::min(text.find('\0'), text.size());
  const std::string_view out = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return out;
}

}  // namespace

ClaimedRange find_claims(const std::string& folder, const std::string& range) {
  const size_t dots = range.find("..");
  const std::string base = range.substr(0, dots),
                    head = dots == range.npos ? "" : range.substr(dots + 2);
  if (base.empty() || head.empty() || head.starts_with('.')) {
    refuse_range(range, "it is written BASE..HEAD, as origin/main..HEAD");
  }
  if (!ask_git(folder, {"rev-parse", "--show-toplevel"})) {
    refuse_range(range, "the working folder lies in no checkout of git");
  }
  ClaimedRange out;
  out.head = commit_named(folder, range, head);
  const auto common = ask_git(folder, {"merge-base", commit_named(folder, range, base), out.head});
  if (!common) refuse_range(range, "the two have no commit in common, or a shallow clone lacks it");
  out.base = *common;
  const auto log = ask_git(folder, {"log", "-z", "--no-show-signature", "--format=%H%x00%s%x00%B",
                                    out.base + ".." + out.head});
  if (!log) refuse_range(range, "git cannot list its commits");
  for (std::string_view rest = *log; !rest.empty(); ++out.commits) {
    const std::string_view hash = take_field(rest), title = take_field(rest);
    const bool claims = take_field(rest).find(kClaim) != std::string_view::npos;
    if (claims) out.claims.push_back({std::string(hash), std::string(title)});
  }
  return out;
}

std::string_view to_string(ClaimOutcome outcome) {
  switch (outcome) {
    case ClaimOutcome::kUnclaimed:
      return "not claimed";
    case ClaimOutcome::kKept:
      return "kept";
    case ClaimOutcome::kBroken:
      return "broken";
    case ClaimOutcome::kNotJudged:
      return "not judged";
  }
  return "";
}

ClaimVerdict judge_claim(const CommitRun& base, const CommitRun& head) {
  for (const auto& [run, name] : {std::pair(&base, "the merge base: "), {&head, "the head: "}}) {
    const std::string why = run->values ? emptiness_of(*run->values) : run->problem;
    if (!why.empty()) return {ClaimOutcome::kNotJudged, name + why};
  }
  ClaimVerdict out{ClaimOutcome::kKept};
  out.differences = differences({}, *base.values, *head.values);
  if (!out.differences.empty()) out.outcome = ClaimOutcome::kBroken;
  const auto is_new = [](const JudgedDifference& d) { return !d.bits.recorded; };
  out.values =
      base.values->size() + static_cast<size_t>(std::ranges::count_if(out.differences, is_new));
  return out;
}

}  // namespace rlreplay::gate
