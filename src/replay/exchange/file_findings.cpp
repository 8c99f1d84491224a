#include "src/replay/exchange/file_findings.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>

#include "src/base/number_text.h"
#include "src/replay/record/import_findings.h"

namespace rlreplay::replay {
namespace {

constexpr size_t kPlaces = 20;  // that are kept of contradictions of one code and message
constexpr std::string_view kRow = "row ";

/// The row of "row 12".
std::optional<ptrdiff_t> sample_row(std::string_view where) {
  if (!where.starts_with(kRow)) return std::nullopt;
  const auto row = parse_number<ptrdiff_t>(where.substr(kRow.size()));
  return row && *row >= 0 ? row : std::nullopt;
}

}  // namespace

void FileFindings::add(const std::string& name, const std::string& tail,
                       const foreign::Problem& found) {
  const auto [of, fresh] = numbers_.emplace(std::pair(name, tail), files_.size());
  if (fresh) files_.emplace_back(name, tail);
  auto at = sample_row(found.where);
  if (!at) {
    texts_.push_back(found.where);
    at = -static_cast<ptrdiff_t>(texts_.size());
  }
  alike_[{found.code, found.message}].push_back({of->second, *at});
}

std::string FileFindings::text(const Place& place) const {
  const std::string where = place.at < 0 ? texts_[static_cast<size_t>(-place.at) - 1]
                                         : std::string(kRow) + std::to_string(place.at);
  const auto& [name, tail] = files_[place.file];
  return name + (name.empty() || where.empty() ? "" : ": ") + where + tail;
}

Hash FileFindings::hash_of_all(const std::vector<Place>& places) const {
  std::vector<std::string> all;
  std::ranges::transform(places, std::back_inserter(all),
                         [&](const Place& place) { return text(place); });
  std::ranges::sort(all);
  Hasher hasher;
  for (std::string& place : all) hasher.update(std::as_bytes(std::span(place += '\n')));
  return hasher.finish();
}

std::vector<foreign::Problem> FileFindings::finish() const {
  std::vector<foreign::Problem> out;
  for (const auto& [what, places] : alike_) {
    const bool contradict = is_contradiction({what.first, what.second, ""});
    const bool each = contradict || is_unplaced_term({what.first, "", text(places.front())});
    const auto kept = std::span(places).first(std::min(places.size(), each ? kPlaces : 1));
    for (const Place& place : kept) out.push_back({what.first, what.second, text(place)});
    if (kept.size() == places.size()) continue;
    out.back().where += ", and " + std::to_string(places.size() - kept.size()) + " more";
    if (!contradict) continue;
    out.back().where +=
        ", all " + std::to_string(places.size()) + " with the hash " + hash_of_all(places).hex();
  }
  return out;
}

}  // namespace rlreplay::replay
