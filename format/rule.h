#pragma once

#include <string>
#include <string_view>

#include "src/base/error.h"

namespace rlreplay::format {

/// The rules of SPEC.md whose breach a reader reports, in the order in which they are checked. The
/// names that `to_string` gives are pinned: they are printed in JSON.
enum class Rule {
  kNotADump,         // the folder holds no manifest and no journal
  kManifestMissing,  // sealed evidence without a manifest
  kPath,             // a path outside the grammar, or a link on the way
  kFileType,         // not a regular file
  kFileSize,         // larger than a file of its kind may be, or other than announced
  kRecordSyntax,     // a record that is not one canonical JSON envelope
  kRecordHash,       // a record whose body does not have its hash
  kFormatName,       // another format
  kVersion,          // a version that this reader does not know
  kMustUnderstand,   // a feature that this reader does not know
  kSchema,           // a key that is missing, or a value of the wrong kind or range
  kChain,            // journal lines that do not follow one another
  kDuplicate,        // a path twice
  kJournal,          // a journal other than the manifest's
  kRoot,             // the root does not follow from the units
  kUnitMissing,      // an announced file is absent
  kUnitHash,         // stored bytes other than the announced ones
  kSignature,        // not HDF5, or a superblock other than version 3
  kContainer,        // libhdf5 refuses the file
  kObject,           // a link or object of a kind that does not belong here
  kAttribute,        // an attribute that is missing, unknown, or wrong
  kElement,          // a stored type other than the dtype's
  kShape,            // shape and stored size do not agree
  kLayout,           // a layout or filter outside the list
  kLimit,            // more than the reader was allowed to take
  kChunk,            // a chunk that is missing, too large, or not one sound frame
  kParent,           // the base of a difference is absent, other, or too deep
  kDatasetHash,      // decoded bytes other than the hash
  kContent,          // the unit's content does not have the announced hash
  kMeaning,          // values that break the tables: offsets, masks, lengths
  kUnlisted,         // a file that no record names
};

std::string_view to_string(Rule rule);

/// What is wrong, and where: a path below the dump, and a dataset where one is concerned.
struct Problem {
  Rule rule;
  std::string path;
  std::string dataset;
  std::string message;
};

/// A breach of a rule, thrown where a reader cannot go on. Its code is kUnsupported for versions
/// and features, kIncomplete for what is absent, else kCorrupt.
class FormatError : public Error {
 public:
  FormatError(Rule rule, const std::string& message, std::string path, std::string dataset = {});

  Rule rule() const { return problem_.rule; }
  const Problem& problem() const { return problem_; }

 private:
  Problem problem_;
};

}  // namespace rlreplay::format
