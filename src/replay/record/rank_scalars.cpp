#include "src/replay/record/rank_scalars.h"

#include <algorithm>
#include <array>
#include <map>

#include "src/base/number_text.h"
#include "src/base/same_value.h"

namespace rlreplay::replay {

ScalarOf scalar_of(std::string_view name) {
  constexpr auto kOfStep =
      std::to_array<std::string_view>({"grad_norm", "clip_scale", "lr", "trajectories"});
  constexpr auto kOfSamples =
      std::to_array<std::string_view>({"loss", "pg_loss", "entropy", "kl", "clip_fraction"});
  if (std::ranges::count(kOfStep, name) > 0) return ScalarOf::kStep;
  return std::ranges::count(kOfSamples, name) > 0 ? ScalarOf::kSamples : ScalarOf::kRank;
}

StepScalars join_scalars(const std::vector<std::pair<int64_t, format::NamedColumns>>& by_rank) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<std::pair<int64_t, double>>> values;
  for (const auto& [rank, scalars] : by_rank) {
    for (size_t i = 0; i < scalars.names.size(); ++i) {
      auto& of = values[scalars.names[i]];
      if (of.empty()) order.push_back(scalars.names[i]);
      of.emplace_back(rank, scalars.values[i]);
    }
  }
  StepScalars out;
  for (const std::string& name : order) {
    const auto& of = values[name];
    const double first = of.front().second;
    if (std::ranges::all_of(of, [&](const auto& said) { return same_value(said.second, first); })) {
      out.agreed.names.push_back(name);
      out.agreed.values.push_back(first);
      continue;
    }
    for (const auto& [rank, value] : of) out.differing.push_back({name, rank, value});
  }
  return out;
}

std::string numbers_by_rank(const StepScalars& scalars, std::string_view name) {
  std::string out;
  for (const StepScalars::OfRank& of : scalars.differing) {
    if (!name.empty() && of.name != name) continue;
    out += (out.empty() ? "" : ", ") + of.text() + " " + shortest_of(of.value);
  }
  return out;
}

}  // namespace rlreplay::replay
