#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "src/replay/gate/commit_run.h"
#include "src/replay/gate/outcome.h"

namespace rlreplay::gate {

/// By this a commit's message says that no bit of a run changes with it.
inline constexpr std::string_view kClaim = "[bitwise]";

struct ClaimingCommit {
  std::string hash, title;
};

/// What a branch brings.
struct ClaimedRange {
  std::string base, head;                   // the merge base, and what is claimed of
  size_t commits = 0;                       // between the two
  std::vector<ClaimingCommit> claims = {};  // those whose message has kClaim, the newest first
};

/// Errors: kUsage for a range that is no BASE..HEAD, for names that git does not know, and for two
/// without a common commit.
[[nodiscard]] ClaimedRange find_claims(const std::string& folder, const std::string& range);

/// What came of a claim.
enum class ClaimOutcome { kUnclaimed, kKept, kBroken, kNotJudged };

/// `not claimed`, `kept`, `broken`, `not judged`.
std::string_view to_string(ClaimOutcome outcome);

struct ClaimVerdict {
  ClaimOutcome outcome = ClaimOutcome::kUnclaimed;
  std::string reason = {};                         // why it is not judged
  std::vector<JudgedDifference> differences = {};  // from base to head
  size_t values = 0;                               // of both together
};

/// Of what the two commits give here: one bit breaks the claim. Values that could show no change
/// judge nothing.
[[nodiscard]] ClaimVerdict judge_claim(const CommitRun& base, const CommitRun& head);

}  // namespace rlreplay::gate
