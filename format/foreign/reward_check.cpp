#include "format/foreign/reward_check.h"

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "format/foreign/numbers.h"
#include "format/foreign/text.h"
#include "format/foreign/tree_difference.h"

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

/// What a trainer can make a reward of: a number, or a dict that holds it under a name. Other kinds
/// than these two, which a file may hold as well, are judged by others or by nobody.
bool is_number(Value reward) { return number_of(reward).has_value(); }
bool is_dict(Value reward) { return reward.kind == Kind::kDict; }
bool is_neither(Value reward) { return reward.kind == Kind::kText || reward.kind == Kind::kList; }

Value reward_of(const Tree& tree, Value sample) {
  const Value* reward = tree.find(sample, "reward");
  return reward == nullptr ? Value() : *reward;
}

/// Reports rewards that are no numbers nor dicts, and the one that is of another kind than all the
/// others of the file: a key of all takes a number of each. Several of either kind may be those of
/// two data sets of an evaluation.
void check_reward_kinds(const Tree& tree, const Sequence& samples, const ProblemSink& sink) {
  size_t numbers = 0, dicts = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    const Value reward = reward_of(tree, samples[i]);
    numbers += is_number(reward) ? 1 : 0;
    dicts += is_dict(reward) ? 1 : 0;
  }
  const bool of_dicts = dicts > numbers,
             one_is_other = numbers != dicts && std::min(numbers, dicts) == 1;
  for (size_t i = 0; i < samples.size(); ++i) {
    const Value reward = reward_of(tree, samples[i]);
    const bool is_other = one_is_other && (of_dicts ? is_number(reward) : is_dict(reward));
    if (!is_neither(reward) && !is_other) continue;
    sink({"not-numbers",
          "reward is " + in_words(tree, reward) + ", expected a " +
              (of_dicts ? "record of numbers" : "number") +
              (numbers + dicts > 1 ? ", as other rows of the file have" : ""),
          "row " + std::to_string(i)});
  }
}

/// Reports samples whose rewards are dicts and lack a number that other samples have there. A
/// sample is named once, with the first that it lacks.
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

}  // namespace

void check_rewards(const Tree& tree, const Sequence& samples, const ProblemSink& sink) {
  check_reward_kinds(tree, samples, sink);
  check_reward_dicts(tree, samples, sink);
}

}  // namespace rlreplay::foreign
