#include "format/foreign/reward_check.h"

#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "format/foreign/numbers.h"
#include "format/foreign/text.h"

namespace rlreplay::foreign {
namespace {

using Names = std::set<std::string_view>;

/// The keys under which a sample's reward has numbers; nothing where it is no dict.
std::optional<Names> numbers_in_reward(const Tree& tree, Value sample) {
  const Value* reward = tree.find(sample, "reward");
  if (reward == nullptr || reward->kind != Kind::kDict) return std::nullopt;
  Names out;
  const Sequence& items = tree.sequence(*reward);
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    if (items[i].kind == Kind::kText && number_of(items[i + 1])) out.insert(tree.text(items[i]));
  }
  return out;
}

}  // namespace

void check_reward_dicts(const Tree& tree, const Sequence& samples, const ProblemSink& sink) {
  std::vector<std::pair<std::string_view, size_t>>
      first;  // keys, and the sample that has one first
  Names known;
  for (size_t i = 0; i < samples.size(); ++i) {
    for (const std::string_view name : numbers_in_reward(tree, samples[i]).value_or(Names())) {
      if (known.insert(name).second) first.emplace_back(name, i);
    }
  }
  for (size_t i = 0; i < samples.size(); ++i) {
    const auto own = numbers_in_reward(tree, samples[i]);
    if (!own || own->size() == first.size()) continue;
    size_t at = 0;
    while (own->contains(first[at].first)) ++at;
    const size_t more = first.size() - own->size() - 1;
    sink({"length-mismatch",
          "the reward holds no number " + printable(first[at].first) +
              (more == 0 ? "" : ", nor " + std::to_string(more) + " more") + ", and that of row " +
              std::to_string(first[at].second) + " of the file has it",
          "row " + std::to_string(i)});
  }
}

}  // namespace rlreplay::foreign
