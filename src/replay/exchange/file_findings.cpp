#include "src/replay/exchange/file_findings.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>

#include "src/base/hash.h"
#include "src/base/number_text.h"

namespace rlreplay::replay {
namespace {

constexpr size_t kPlacesOfFiles = 20;  // what findings_datasets keeps
constexpr std::string_view kSample = "sample ";

/// The row of "sample 12".
std::optional<ptrdiff_t> sample_row(std::string_view where) {
  if (!where.starts_with(kSample)) return std::nullopt;
  const auto row = parse_number<ptrdiff_t>(where.substr(kSample.size()));
  return row && *row >= 0 ? row : std::nullopt;
}

}  // namespace

void FileFindings::add(const std::string& name, const std::string& tail,
                       const foreign::Problem& found) {
  if (files_.empty() || files_.back().first != name) files_.emplace_back(name, tail);
  auto at = sample_row(found.where);
  if (!at) {
    texts_.push_back(found.where);
    at = -static_cast<ptrdiff_t>(texts_.size());
  }
  alike_[{found.code, found.message}].push_back({files_.size() - 1, *at});
}

std::string FileFindings::text(const Place& place) const {
  const std::string where = place.at < 0 ? texts_[static_cast<size_t>(-place.at) - 1]
                                         : std::string(kSample) + std::to_string(place.at);
  const auto& [name, tail] = files_[place.file];
  return name + (where.empty() ? "" : ": ") + where + tail;
}

std::vector<foreign::Problem> FileFindings::finish() const {
  std::vector<foreign::Problem> out;
  for (const auto& [what, places] : alike_) {
    const auto shown = std::span(places).first(std::min(places.size(), kPlacesOfFiles));
    for (const Place& place : shown) out.push_back({what.first, what.second, text(place)});
    if (shown.size() == places.size()) continue;
    std::vector<std::string> all;
    std::ranges::transform(places, std::back_inserter(all),
                           [&](const Place& place) { return text(place); });
    std::ranges::sort(all);
    Hasher hasher;
    for (std::string& place : all) hasher.update(std::as_bytes(std::span(place += '\n')));
    out.back().where += ", and " + std::to_string(places.size() - shown.size()) + " more, all " +
                        std::to_string(places.size()) + " with the hash " + hasher.finish().hex();
  }
  return out;
}

}  // namespace rlreplay::replay
