#include "src/replay/exchange/alike_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "src/base/hash.h"

namespace rlreplay::replay {
namespace {

void append(std::string& out, const void* data, size_t size) {
  out.append(static_cast<const char*>(data), size);
}

}  // namespace

std::string hash_of_values(std::span<const std::vector<float>* const> columns) {
  std::string text;
  for (const std::vector<float>* column : columns) {
    const size_t size = column->size();
    append(text, &size, sizeof size);
    for (const float value : *column) {
      const float one = std::isnan(value) ? std::numeric_limits<float>::quiet_NaN() : value;
      append(text, &one, sizeof one);
    }
  }
  return hash_of(text).hex();
}

/// A key that is equal for rows with the same values in the columns that they and `said` have. That
/// a column is absent differs from its being empty.
std::string AlikeRows::key_of(const PolicyLossRow& row, Pattern said) {
  std::string pattern;
  std::vector<const std::vector<float>*> columns;
  for (size_t i = 0; i < kRepeatedColumns.size(); ++i) {
    const std::vector<float>& column = row.*kRepeatedColumns[i];
    const bool both = ((said >> i) & 1) != 0 && !column.empty();
    pattern += both ? '1' : '0';
    if (both) columns.push_back(&column);
  }
  return pattern + hash_of_values(columns);
}

AlikeRows::Index& AlikeRows::index_of(Pattern said) {
  const auto [at, fresh] = indexes_.try_emplace(said);
  for (const auto& [place, row] : rows_) {
    if (!fresh) break;
    at->second[key_of(row, said)].insert(place);
  }
  return at->second;
}

void AlikeRows::add(PolicyLossRow row) {
  for (auto& [said, index] : indexes_) index[key_of(row, said)].insert(next_);
  rows_.emplace(next_++, std::move(row));
}

std::optional<size_t> AlikeRows::find(const RepeatedColumns& said) {
  Pattern all = 0;
  for (size_t i = 0; i < said.size(); ++i) all |= Pattern{said[i].has_value()} << i;
  const Index& index = index_of(all);
  std::optional<size_t> first;
  for (Pattern some = 0; some <= all; ++some) {  // rows may lack columns
    if ((some & ~all) != 0) continue;
    PolicyLossRow wanted;
    for (size_t i = 0; i < said.size(); ++i) {
      if (((some >> i) & 1) != 0) wanted.*kRepeatedColumns[i] = *said[i];
    }
    const auto at = index.find(key_of(wanted, some));
    if (at == index.end() || at->second.empty()) continue;
    first = std::min(first.value_or(*at->second.begin()), *at->second.begin());
  }
  return first;
}

PolicyLossRow AlikeRows::take(const RepeatedColumns& said) {
  const auto found = rows_.find(find(said).value_or(rows_.begin()->first));
  for (auto& [pattern, index] : indexes_) {
    index.at(key_of(found->second, pattern)).erase(found->first);
  }
  PolicyLossRow row = std::move(found->second);
  rows_.erase(found);
  return row;
}

}  // namespace rlreplay::replay
