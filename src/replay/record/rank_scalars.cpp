#include "src/replay/record/rank_scalars.h"

#include <map>

#include "src/base/same_value.h"
#include "src/base/shortest.h"

namespace rlreplay::replay {

format::NamedColumns join_scalars(
    const std::vector<std::pair<int64_t, format::NamedColumns>>& by_rank) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<std::pair<int64_t, double>>> values;
  for (const auto& [rank, scalars] : by_rank) {
    for (size_t i = 0; i < scalars.names.size(); ++i) {
      auto& of = values[scalars.names[i]];
      if (of.empty()) order.push_back(scalars.names[i]);
      of.emplace_back(rank, scalars.values[i]);
    }
  }
  format::NamedColumns out;
  for (const std::string& name : order) {
    const auto& of = values[name];
    bool agree = true;
    for (const auto& [rank, value] : of) agree = agree && same_value(value, of.front().second);
    for (const auto& [rank, value] : of) {
      out.names.push_back(agree ? name : name + "@" + std::to_string(rank));
      out.values.push_back(value);
      if (agree) break;
    }
  }
  return out;
}

std::string numbers_by_rank(const format::NamedColumns& joined, std::string_view name) {
  std::string out;
  for (size_t i = 0; i < joined.names.size(); ++i) {
    const size_t at = joined.names[i].rfind('@');
    if (at == std::string::npos || (!name.empty() && joined.names[i].substr(0, at) != name))
      continue;
    out += (out.empty() ? "" : ", ") + joined.names[i] + " " + shortest_of(joined.values[i]);
  }
  return out;
}

}  // namespace rlreplay::replay
