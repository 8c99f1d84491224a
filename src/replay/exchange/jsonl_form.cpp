#include "src/replay/exchange/jsonl_form.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "src/replay/exchange/jsonl_nested.h"

namespace rlreplay::replay::jsonl {
namespace {

using format::Axis;
using format::Column;
using format::NamedColumns;
using format::TokenFloats;
using format::TokenSets;

/// Lists of the response begin with its first token.
template <class Data>
class Prompts {
 public:
  explicit Prompts(Data& data) : data_(data) {}

  template <class T>
  void clear(T&, Axis) {}
  template <class T>
  void clear(std::optional<Column<T>>& column, Axis axis) {
    if (column && axis == Axis::kResponse) clear(column->values);
  }
  void clear(std::optional<TokenFloats>& column, Axis) {
    if (!column) return;
    column->is_wide() ? clear(column->wide) : clear(column->narrow);
  }
  void clear(std::optional<TokenSets>& sets, Axis) {
    if (!sets) return;
    TokenSets out;
    out.presence = sets->presence;
    for (size_t s = 0; s < data_.size(); ++s) {
      uint64_t at = sets->offsets[s];
      for (uint64_t t = data_.offsets[s]; t < data_.offsets[s + 1]; ++t) {
        const bool said = sets->has(s) && t >= data_.offsets[s] + prompt(s);
        out.sizes.push_back(said ? sets->sizes[t] : 0);
        const auto first = sets->ids.begin() + static_cast<ptrdiff_t>(at);
        out.ids.insert(out.ids.end(), first, first + out.sizes.back());
        at += sets->sizes[t];
      }
      out.offsets.push_back(out.ids.size());
    }
    sets = std::move(out);
    if (std::ranges::find(sets->presence, 1) == sets->presence.end() && !sets->presence.empty()) {
      sets.reset();
    }
  }

 private:
  uint64_t prompt(size_t s) const { return data_.prompt_length ? (*data_.prompt_length)[s] : 0; }

  template <class T>
  void clear(std::vector<T>& values) {
    for (size_t s = 0; s < data_.size(); ++s) {
      const auto begin = values.begin() + static_cast<ptrdiff_t>(data_.offsets[s]);
      std::fill(begin, begin + static_cast<ptrdiff_t>(prompt(s)), T());
    }
  }

  Data& data_;
};

/// Whether names can be the keys of an object.
bool are_keys(const std::vector<std::string>& names) {
  const std::set<std::string> distinct(names.begin(), names.end());
  return !names.empty() && distinct.size() == names.size();
}

void keep_keys(std::optional<NamedColumns>& columns) {
  if (columns && !are_keys(columns->names)) columns.reset();
}

/// A call has its numbers beside its other keys, without those that were not recorded.
void keep_numbers(std::optional<NamedColumns>& numbers) {
  if (!numbers) return;
  const size_t width = numbers->names.size(), rows = numbers->values.size() / std::max(width, 1UL);
  std::map<std::string, size_t> kept;
  for (size_t k = 0; k < width; ++k) {
    size_t row = 0;
    while (row < rows && std::isnan(numbers->values[row * width + k])) ++row;
    if (is_number_of_call(numbers->names[k]) && row < rows) kept.emplace(numbers->names[k], k);
  }
  NamedColumns out;
  for (const auto& [name, k] : kept) out.names.push_back(name);
  for (size_t row = 0; row < rows; ++row) {
    for (const auto& [name, k] : kept) out.values.push_back(numbers->values[row * width + k]);
  }
  numbers.reset();
  if (!out.names.empty()) numbers = std::move(out);
}

void keep_calls(std::optional<format::Calls>& calls) {
  if (!calls) return;
  if (calls->size() == 0) {
    format::Calls none;
    none.offsets = calls->offsets;
    calls = std::move(none);
    return;
  }
  keep_numbers(calls->numbers);
}

}  // namespace

void keep_what_lines_say(format::RolloutData& data) {
  Prompts prompts(data);
  format::for_each_rollout_column(
      [&](std::string_view, auto member, Axis axis) { prompts.clear(data.*member, axis); });
  keep_keys(data.reward_components);
  keep_calls(data.calls);
}

void keep_what_lines_say(format::TrainData& data) {
  Prompts prompts(data);
  format::for_each_train_column(
      [&](std::string_view, auto member, Axis axis) { prompts.clear(data.*member, axis); });
  keep_keys(data.scalars);
  if (data.scalars) data.scalars->presence.clear();  // they are of no sample
}

}  // namespace rlreplay::replay::jsonl
