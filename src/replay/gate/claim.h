#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "src/replay/gate/commit_run.h"
#include "src/replay/gate/outcome.h"

namespace rlreplay::gate {

/// The word by which a commit's message says that no bit of a run changes with it.
inline constexpr std::string_view kClaim = "[bitwise]";

/// A commit that claims to change no bit.
struct ClaimingCommit {
  std::string hash, title;
};

/// What a branch brings.
struct ClaimedRange {
  std::string base, head;                   // the merge base, and what is claimed of
  size_t commits = 0;                       // between the two
  std::vector<ClaimingCommit> claims = {};  // those whose message has kClaim, the newest first
};

/// The commits of `range` in the checkout that `folder` lies in, and which of them claim.
/// Errors: kUsage for a range that is no BASE..HEAD, for names that git does not know, and for two
/// without a common commit.
[[nodiscard]] ClaimedRange find_claims(const std::string& folder, const std::string& range);

/// What came of a claim.
enum class ClaimOutcome { kUnclaimed, kKept, kBroken, kNotJudged };

/// `not claimed`, `kept`, `broken`, `not judged`.
[[nodiscard]] std::string_view to_string(ClaimOutcome outcome);

/// What came of a claim, and what speaks against it.
struct ClaimVerdict {
  ClaimOutcome outcome = ClaimOutcome::kUnclaimed;
  std::string reason = {};                         // why it is not judged
  std::vector<JudgedDifference> differences = {};  // from base to head
  size_t values = 0;                               // of both together
};

/// Judges a claim by what its two commits give here: one bit breaks it. Values that could show no
/// change judge nothing.
[[nodiscard]] ClaimVerdict judge_claim(const CommitRun& base, const CommitRun& head);

}  // namespace rlreplay::gate
