#include "format/foreign/absent_keys.h"

#include <algorithm>
#include <set>
#include <utility>

#include "format/foreign/text.h"
#include "src/base/ascii.h"

namespace rlreplay::foreign {
namespace {

using Wanted = std::function<bool(std::string_view)>;

/// The wanted keys of a row, in its order; of what is no dict none.
std::vector<std::string_view> keys_of(const Tree& tree, Value row, const Wanted& wanted) {
  std::vector<std::string_view> out;
  if (!is_record(row)) return out;
  const Sequence& items = tree.sequence(row);
  for (size_t i = row.kind == Kind::kObject ? 1 : 0; i + 1 < items.size(); i += 2) {
    if (items[i].kind != Kind::kText) continue;
    const std::string_view key = tree.text(items[i]);
    if (wanted(key)) out.push_back(key);
  }
  return out;
}

}  // namespace

std::string AbsentKeys::name() const {
  return std::ranges::all_of(key, is_word_character) ? std::string(key) : printable(key);
}

std::vector<AbsentKeys> absent_keys(const Tree& tree, const Sequence& rows, const Wanted& wanted) {
  std::vector<std::pair<std::string_view, size_t>> first;  // of each key, the row that has it first
  std::set<std::string_view> known;
  for (size_t row = 0; row < rows.size(); ++row) {
    for (const std::string_view key : keys_of(tree, rows[row], wanted)) {
      if (known.insert(key).second) first.emplace_back(key, row);
    }
  }
  std::vector<AbsentKeys> out;
  for (size_t row = 0; row < rows.size(); ++row) {
    const std::vector<std::string_view> keys = keys_of(tree, rows[row], wanted);
    const std::set<std::string_view> own(keys.begin(), keys.end());
    if (own.size() == first.size()) continue;
    size_t at = 0;
    while (own.contains(first[at].first)) ++at;
    out.push_back({row, first[at].first, first.size() - own.size() - 1, first[at].second});
  }
  return out;
}

}  // namespace rlreplay::foreign
