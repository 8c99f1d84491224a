#include "src/replay/record/import_findings.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "format/group_io.h"
#include "format/rule.h"
#include "src/base/hash.h"
#include "src/base/json_line.h"
#include "src/base/json_value.h"

namespace rlreplay::replay {

using foreign::Problem;

namespace {

constexpr size_t kPlaces = 20;  // that are kept of findings of one code and message

/// Of the lines of the unit those that `wanted` is true of.
std::vector<Problem> read_findings(const format::DumpReader& dump, bool (*wanted)(const Problem&)) {
  std::vector<Problem> out;
  for (const format::UnitRecord* unit : dump.find(kFindingsKind, "data")) {
    const format::UnitReader reader = dump.open_unit(*unit);
    const format::GroupReader values(dump, reader, "data");
    const format::StoredDataset* dataset = values.find("text");
    if (dataset == nullptr) {
      throw format::FormatError(format::Rule::kMeaning, "it is missing", unit->path, "data/text");
    }
    const std::vector<uint8_t> text = values.read<uint8_t>(*dataset);
    for (auto begin = text.begin(); begin != text.end();) {
      const auto end = std::find(begin, text.end(), uint8_t{'\n'});
      const JsonDocument line = JsonDocument::parse(std::string(begin, end), unit->path);
      const Problem found{line.root()["code"].string(), line.root()["message"].string(),
                          line.root()["where"].string()};
      if (wanted(found)) out.push_back(found);
      begin = end == text.end() ? end : end + 1;
    }
  }
  return out;
}

/// What stands behind the last place that is kept: how many more there were and, of contradictions,
/// by what all of them are told from others.
std::string rest_of(const std::vector<const Problem*>& found, size_t kept) {
  if (found.size() == kept) return {};
  const std::string more = ", and " + std::to_string(found.size() - kept) + " more";
  if (!is_contradiction(*found.front())) return more;
  std::vector<std::string_view> places;
  for (const Problem* problem : found) places.push_back(problem->where);
  std::ranges::sort(places);
  std::string all;
  for (const std::string_view place : places) all.append(place).append("\n");
  return more + ", all " + std::to_string(found.size()) + " with the hash " + hash_of(all).hex();
}

}  // namespace

bool is_contradiction(const Problem& finding) {
  constexpr auto kCodes = std::to_array<std::string_view>(
      {"replica-mismatch", "replica-missing", "name-mismatch", "schedule-mismatch",
       "rollout-mismatch", "policy-loss-mismatch", "duplicate-index", "unknown-status",
       "length-mismatch", "bad-mask"});
  return std::ranges::count(kCodes, finding.code) > 0;
}

bool is_replaced_id(const Problem& finding) { return finding.code == "sample-id-replaced"; }

std::vector<format::Dataset> findings_datasets(const std::vector<Problem>& findings) {
  std::map<std::pair<std::string, std::string>, std::vector<const Problem*>> alike;
  for (const Problem& finding : findings)
    alike[{finding.code, finding.message}].push_back(&finding);
  std::vector<uint8_t> text;
  for (const auto& [what, found] : alike) {
    const size_t places = std::min(found.size(), is_contradiction(*found.front()) ? kPlaces : 1);
    for (size_t i = 0; i < places; ++i) {
      const bool last = i + 1 == places;
      const std::string line =
          JsonLine()
              .text("code", what.first)
              .text("message", what.second)
              .text("where", found[i]->where + (last ? rest_of(found, places) : ""))
              .str();
      text.insert(text.end(), line.begin(), line.end());
      text.push_back('\n');
    }
  }
  const uint64_t size = text.size();
  return {format::dataset_of<uint8_t>("data/text", DType::kU8, {size}, std::move(text))};
}

std::vector<Problem> recorded_findings(const format::DumpReader& dump) {
  return read_findings(dump, is_contradiction);
}

std::set<std::string> contradictions(const format::DumpReader& dump) {
  std::set<std::string> out;
  for (const Problem& found : recorded_findings(dump)) {
    out.insert(found.code + ": " + found.message + " (" + found.where + ")");
  }
  return out;
}

std::vector<Problem> replaced_ids(const format::DumpReader& dump) {
  return read_findings(dump, is_replaced_id);
}

}  // namespace rlreplay::replay
