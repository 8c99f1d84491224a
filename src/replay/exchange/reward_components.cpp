#include "src/replay/exchange/reward_components.h"

#include <limits>
#include <map>
#include <string_view>

#include "format/foreign/numbers.h"
#include "format/foreign/text.h"
#include "src/replay/exchange/rollout_columns.h"

namespace rlreplay::replay {
namespace {

using foreign::Kind;
using foreign::Sequence;
using foreign::Tree;
using foreign::Value;

constexpr size_t kFewCells = size_t{1} << 17;  // columns may take as many in any case

/// Goes through the samples twice: the first time it meets names and counts them, which decides
/// what gets a column; the second time it fills rows. Columns stand in the order of the meeting.
class ComponentReader {
 public:
  ComponentReader(const Tree& tree, const Sequence& samples, std::span<const size_t> order)
      : tree_(tree), samples_(samples), order_(order) {}

  RewardComponents run() {
    for (const size_t i : order_) find_names(i);
    drop_rare();
    if (!made_.columns) return std::move(made_);
    format::Presence presence;
    for (const size_t i : order_) {
      presence.push_back(dict(i) != nullptr ? 1 : 0);
      add_row(i);
    }
    keep_presence(made_.columns, std::move(presence));
    return std::move(made_);
  }

 private:
  /// A reward that is a dict, or the components that this program's own export wrote.
  const Value* dict(size_t i) const {
    const Value* reward = tree_.find(samples_[i], "reward");
    if (reward == nullptr || reward->kind != Kind::kDict) {
      reward = own_value(tree_, samples_[i], "reward_components");
    }
    return reward == nullptr || reward->kind != Kind::kDict ? nullptr : reward;
  }

  /// Calls `take` with each name of a number of the sample's reward.
  template <class Take>
  void each_number(size_t i, Take take) const {
    const Value* reward = dict(i);
    const size_t size = reward == nullptr ? 0 : tree_.sequence(*reward).size();
    for (size_t k = 0; k + 1 < size; k += 2) {
      const Value key = tree_.sequence(*reward)[k];
      const auto number = foreign::number_of(tree_.sequence(*reward)[k + 1]);
      if (key.kind != Kind::kText || !number) continue;
      const std::string_view name = tree_.text(key);
      if (name.empty() || name.find('\n') != name.npos || foreign::has_surrogates(name)) continue;
      take(name, *number);
    }
  }

  void find_names(size_t i) {
    made_.any = made_.any || dict(i) != nullptr;
    each_number(i, [&](std::string_view name, double) {
      const auto [at, fresh] = met_.emplace(name, Met{});
      if (fresh) names_.push_back(name);
      ++at->second.count;
      ++given_;
    });
  }

  void add_row(size_t i) {
    std::vector<double>& values = made_.columns->values;
    const size_t begin = values.size(), columns = made_.columns->names.size();
    const double absent = dict(i) == nullptr ? 0 : std::numeric_limits<double>::quiet_NaN();
    values.resize(begin + columns, absent);
    each_number(i, [&](std::string_view name, double number) {
      if (const auto column = met_.at(name).column) values[begin + *column] = number;
    });
  }

  void drop_rare() {
    const bool much = names_.size() * order_.size() > kRarePart * given_ + kFewCells;
    for (const std::string_view name : names_) {
      if (much && met_.at(name).count * kRarePart < order_.size()) {
        made_.rare.emplace_back(name);
        continue;
      }
      if (!made_.columns) made_.columns.emplace();
      met_.at(name).column = made_.columns->names.size();
      made_.columns->names.emplace_back(name);
    }
  }

  /// A key: how many samples have a number there, and its column.
  struct Met {
    size_t count = 0;
    std::optional<size_t> column;
  };

  const Tree& tree_;
  const Sequence& samples_;
  std::span<const size_t> order_;
  RewardComponents made_;
  std::vector<std::string_view> names_;  // in the order in which they are met
  std::map<std::string_view, Met> met_;
  size_t given_ = 0;
};

}  // namespace

RewardComponents reward_components(const Tree& tree, const Sequence& samples,
                                   std::span<const size_t> order) {
  return ComponentReader(tree, samples, order).run();
}

const Value* own_value(const Tree& tree, Value sample, std::string_view key) {
  const Value* metadata = tree.find(sample, "metadata");
  if (metadata == nullptr || metadata->kind != Kind::kDict) return nullptr;
  const Value* ours = tree.find(*metadata, "rlreplay");
  return ours == nullptr ? nullptr : tree.find(*ours, key);
}

}  // namespace rlreplay::replay
