#include "src/replay/record/import_findings.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "format/group_io.h"
#include "format/rule.h"
#include "src/base/json_line.h"
#include "src/base/json_value.h"

namespace rlreplay::replay {

using foreign::Problem;

namespace {

/// The findings that `wanted` is true of, in the order of the unit's lines; empty without the unit.
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

}  // namespace

bool is_contradiction(const Problem& finding) {
  constexpr auto kCodes = std::to_array<std::string_view>(
      {"replica-mismatch", "replica-missing", "name-mismatch", "schedule-mismatch",
       "rollout-mismatch", "policy-loss-mismatch", "bad-index", "duplicate-index", "unknown-status",
       "length-mismatch", "bad-mask", "not-numbers"});
  return std::ranges::count(kCodes, finding.code) > 0;
}

bool is_replaced_id(const Problem& finding) { return finding.code == "sample-id-replaced"; }

bool is_unplaced_term(const Problem& finding) {
  return finding.code.starts_with("policy-loss-") && finding.where.starts_with("step ");
}

bool is_unjudged(const Problem& finding) {
  return is_unplaced_term(finding) || finding.code == "partial-column";
}

std::vector<format::Dataset> findings_datasets(const std::vector<Problem>& findings) {
  std::vector<uint8_t> text;
  for (const Problem& finding : findings) {
    const std::string line = JsonLine()
                                 .text("code", finding.code)
                                 .text("message", finding.message)
                                 .text("where", finding.where)
                                 .str();
    text.insert(text.end(), line.begin(), line.end());
    text.push_back('\n');
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

std::vector<std::string> unjudged(const format::DumpReader& dump) {
  std::vector<std::string> out;
  for (const Problem& found : read_findings(dump, is_unjudged)) {
    out.push_back(is_unplaced_term(found)
                      ? "the policy's terms of " + found.where + ": " + found.message
                      : found.message + " (" + found.where + ")");
  }
  return out;
}

std::vector<Problem> replaced_ids(const format::DumpReader& dump) {
  return read_findings(dump, is_replaced_id);
}

}  // namespace rlreplay::replay
