#include <algorithm>
#include <cmath>
#include <limits>

#include "src/replay/inspect/objective_parts.h"
#include "src/replay/options/objective_config.h"

namespace rlreplay::replay {
namespace {

/// slime and Miles sum so many tokens at once, as a product with a triangle of powers, whose zeros
/// make NaN of what is not finite for the later tokens of the product too.
constexpr size_t kChunk = 128;

/// The response tokens that a sample's sum goes over: of Miles' GAE those that count.
std::vector<size_t> summed_tokens(const engine::AdvantageConfig& config, const Sample& s) {
  std::vector<size_t> out;
  for (size_t t = 0; t < s.loss_mask.size(); ++t) {
    if (config.dialect == engine::Dialect::kSlime || s.loss_mask[t] != 0) out.push_back(t);
  }
  return out;
}

/// Whether the critic's values that GAE reads at the first token of `from` are finite: the token's
/// own and the next one's. True where there are no values.
bool has_finite_values(const SummedSample& of, std::span<const size_t> from) {
  return of.values.empty() ||
         std::ranges::all_of(from.first(std::min<size_t>(2, from.size())),
                             [&](size_t t) { return std::isfinite(of.values[t]); });
}

}  // namespace

void spread_not_finite(const ObjectiveSetting& setting, std::span<const Sample> samples,
                       std::span<const SummedSample> of, engine::Returns& returns) {
  const engine::AdvantageConfig config = advantage_config(setting.options);
  const bool gae = config.estimator == engine::Estimator::kPpo;
  const bool discounts = config.estimator == engine::Estimator::kReinforcePlusPlus &&
                         config.dialect == engine::Dialect::kSlime;
  if (!gae && !discounts) return;
  std::vector<std::vector<size_t>> places;
  size_t longest = 0;
  for (const Sample& s : samples) {
    longest = std::max(longest, places.emplace_back(summed_tokens(config, s)).size());
  }
  for (size_t i = 0; i < samples.size(); ++i) {
    const std::vector<size_t>& tokens = places[i];
    const auto set_nan = [&](size_t begin, size_t end) {
      for (size_t p = begin; p < std::min(end, tokens.size()); ++p) {
        returns.returns[i][tokens[p]] = returns.advantages[i][tokens[p]] =
            std::numeric_limits<double>::quiet_NaN();
      }
    };
    for (size_t p = 0; p < tokens.size(); ++p) {
      const bool charged = config.kl_coef == 0 || std::isfinite(of[i].kl[tokens[p]]);
      if (charged && has_finite_values(of[i], std::span(tokens).subspan(p))) continue;
      // slime multiplies the KL of REINFORCE++ by the mask, which makes any of these NaN.
      const bool masked = discounts && samples[i].loss_mask[tokens[p]] == 0;
      if (masked && !setting.masked_nan) continue;
      // Chunks begin where the longest sample ends.
      set_nan(masked ? 0 : p + 1, longest - (longest - 1 - p) / kChunk * kChunk);
    }
  }
}

}  // namespace rlreplay::replay
