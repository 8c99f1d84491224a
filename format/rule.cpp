#include "format/rule.h"

#include <utility>

namespace rlreplay::format {
namespace {

struct RuleName {
  Rule rule;
  std::string_view name;
};

// In the order of the enumeration.
constexpr RuleName kRuleNames[] = {
    {Rule::kNotADump, "not-a-dump"},
    {Rule::kManifestMissing, "manifest-missing"},
    {Rule::kFileType, "file-type"},
    {Rule::kFileSize, "file-size"},
    {Rule::kRecordSyntax, "record-syntax"},
    {Rule::kRecordHash, "record-hash"},
    {Rule::kRecordForm, "record-form"},
    {Rule::kFormatName, "format-name"},
    {Rule::kVersion, "version"},
    {Rule::kMustUnderstand, "must-understand"},
    {Rule::kUnitCount, "unit-count"},
    {Rule::kSchema, "schema"},
    {Rule::kIndex, "index"},
    {Rule::kIndexForm, "index-form"},
    {Rule::kUnitPath, "unit-path"},
    {Rule::kChain, "chain"},
    {Rule::kWriter, "writer"},
    {Rule::kDuplicate, "duplicate"},
    {Rule::kRoot, "root"},
    {Rule::kJournal, "journal"},
    {Rule::kUnitLimit, "unit-limit"},
    {Rule::kUnitMissing, "unit-missing"},
    {Rule::kUnitType, "unit-type"},
    {Rule::kUnitSize, "unit-size"},
    {Rule::kUnitHash, "unit-hash"},
    {Rule::kSignature, "signature"},
    {Rule::kContainer, "container"},
    {Rule::kObjectLimit, "object-limit"},
    {Rule::kObject, "object"},
    {Rule::kAttribute, "attribute"},
    {Rule::kElement, "element"},
    {Rule::kShape, "shape"},
    {Rule::kLayout, "layout"},
    {Rule::kDataLimit, "data-limit"},
    {Rule::kChunk, "chunk"},
    {Rule::kContent, "content"},
    {Rule::kParent, "parent"},
    {Rule::kFrame, "frame"},
    {Rule::kDatasetHash, "dataset-hash"},
    {Rule::kMeaning, "meaning"},
    {Rule::kUnlisted, "unlisted"},
};

}  // namespace

ErrorCode code_of(Rule rule) {
  switch (rule) {
    case Rule::kVersion:
    case Rule::kMustUnderstand:
      return ErrorCode::kUnsupported;
    case Rule::kUnitCount:
    case Rule::kUnitLimit:
    case Rule::kObjectLimit:
    case Rule::kDataLimit:
      return ErrorCode::kLimit;
    case Rule::kNotADump:
    case Rule::kManifestMissing:
    case Rule::kUnitMissing:
      return ErrorCode::kIncomplete;
    default:
      return ErrorCode::kCorrupt;
  }
}

namespace {

std::string place(const std::string& path, const std::string& dataset) {
  return dataset.empty() ? path : path + ":" + dataset;
}

}  // namespace

std::string_view to_string(Rule rule) { return kRuleNames[static_cast<size_t>(rule)].name; }

FormatError::FormatError(Rule rule, const std::string& message, std::string path,
                         std::string dataset, std::optional<uint64_t> offset)
    : Error(code_of(rule), message, place(path, dataset),
            Breach{std::string(to_string(rule)), dataset, offset}),
      problem_{rule, std::move(path), std::move(dataset), message, offset} {}

}  // namespace rlreplay::format
