#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "src/base/error.h"

namespace rlreplay::format {

/// The rules of SPEC.md whose breach a reader reports, in the order in which they are checked: of
/// two that are broken it is the first that is reported. The names that `to_string` gives are
/// pinned: they are printed in JSON.
enum class Rule {
  // The folder.
  kNotADump,         // no manifest and no journal, or no line of it
  kManifestMissing,  // sealed evidence without a manifest
  kFileType,         // a manifest or journal that is not a regular file
  kFileSize,         // one that is larger than it may be
  // Its records.
  kRecordSyntax,    // a record without its envelope
  kRecordHash,      // a body that does not have its hash
  kRecordForm,      // a body that is not canonical JSON
  kFormatName,      // another format
  kVersion,         // a version that this reader does not know
  kMustUnderstand,  // a feature that this reader does not know
  kUnitCount,       // more units than a dump may have
  kSchema,          // a key that is missing, or a value of the wrong kind or range
  kIndex,           // an index of units other than the manifest's
  kIndexForm,       // one that is not of its form
  kUnitPath,        // a unit's path outside the grammar
  kChain,           // journal lines that do not follow one another
  kWriter,          // a journal of another writer than its name's, or of another dump
  kDuplicate,       // a unit twice
  kRoot,            // the root does not follow from the units
  kJournal,         // a journal other than the manifest's
  // A unit's file.
  kUnitLimit,    // larger than the reader may take into memory
  kUnitMissing,  // absent
  kUnitType,     // not a regular file, or reached through a link
  kUnitSize,     // of another size than announced
  kUnitHash,     // of other bytes than announced
  // What is in it: only from here on are its bytes parsed.
  kSignature,    // not HDF5, or a superblock other than version 3
  kContainer,    // damaged, or a form of HDF5 outside the list
  kObjectLimit,  // more objects, levels or attributes than the reader may take
  kObject,       // a link, name or object of a kind that does not belong here
  kAttribute,    // an attribute that is missing, unknown, or wrong
  kElement,      // a stored type other than the dtype's
  kShape,        // shape and stored size do not agree
  kLayout,       // a layout or filter outside the list
  kDataLimit,    // more decoded bytes than announced, or than the reader may take
  kChunk,        // stored bytes that are missing, too many, or partly filtered
  kContent,      // the unit's content does not have the announced hash
  // Values.
  kParent,       // the base of a difference is absent, other, or too deep
  kFrame,        // a chunk that is not one sound zstd frame of its size
  kDatasetHash,  // decoded bytes other than the hash
  kMeaning,      // values that break the tables: offsets, masks, lengths
  kUnlisted,     // a file that no record names
};

[[nodiscard]] std::string_view to_string(Rule rule);

/// kUnsupported for versions and features, kLimit for what the reader may not take, kIncomplete for
/// what is absent, else kCorrupt.
[[nodiscard]] ErrorCode code_of(Rule rule);

/// What is wrong, and where: a path below the dump, a dataset where one is concerned, and the byte
/// of the file at which what breaks the rule begins, where there is one such place.
struct Problem {
  Rule rule;
  std::string path;
  std::string dataset;
  std::string message;
  std::optional<uint64_t> offset = {};
};

/// A breach of a rule, thrown where a reader cannot go on. Its code is `code_of` the rule.
class FormatError : public Error {
 public:
  FormatError(Rule rule, const std::string& message, std::string path, std::string dataset = {},
              std::optional<uint64_t> offset = {});

  Rule rule() const { return problem_.rule; }
  const Problem& problem() const { return problem_; }

 private:
  Problem problem_;
};

}  // namespace rlreplay::format
