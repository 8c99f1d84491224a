#pragma once

#include <string>
#include <string_view>

namespace rlreplay {

/// How many ranks share a step, by kind of parallelism: samples are dealt to dp, every matrix is
/// cut by tp, layers by pp, a sample's tokens by cp.
struct Layout {
  int dp = 1;
  int tp = 1;
  int pp = 1;
  int cp = 1;
  bool sp = false;    // norms and residuals hold a part of the rows, cut by tp
  bool zero = false;  // moments and sums hold a part of the rows of a matrix, cut by dp

  int ranks() const { return dp * tp * pp * cp; }
  friend bool operator==(const Layout&, const Layout&) = default;
};

/// Ranks of a layout at most.
inline constexpr int kMaxRanks = 256;

/// The layout of a text like "dp=2,tp=4,sp=1", in any order; what is not named is 1 (sp and zero:
/// 0). Errors: kUsage for another key or a number that is none, a key given twice or more than
/// kMaxRanks ranks; kUnsupported for ep above 1.
[[nodiscard]] Layout parse_layout(std::string_view text);

/// "dp=2,tp=4,pp=1,cp=1", then ",sp=1" and ",zero=1" where they are on.
[[nodiscard]] std::string to_string(const Layout& layout);

/// A rank's place along each axis.
struct RankPlace {
  int dp = 0;
  int tp = 0;
  int pp = 0;
  int cp = 0;
  friend bool operator==(const RankPlace&, const RankPlace&) = default;
};

/// Ranks are numbered with tp fastest, then cp, dp and pp: neighbours move the most bytes.
[[nodiscard]] RankPlace place_of(const Layout& layout, int rank);
[[nodiscard]] int rank_of(const Layout& layout, const RankPlace& place);

/// "rank 3 (dp 1, tp 1)": axes of size 1 are left out.
[[nodiscard]] std::string rank_name(const Layout& layout, int rank);

}  // namespace rlreplay
