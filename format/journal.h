#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "format/folder.h"
#include "format/unit.h"

namespace rlreplay::format {

inline constexpr char kJournalName[] = "journal.jsonl";
inline constexpr uint64_t kMaxJournalBytes = uint64_t{1} << 30;

/// What the journal of a dump acknowledges.
struct Journal {
  /// The version of the format, as `0.9`.
  std::string version;
  /// The configuration, as canonical JSON; empty when not even the first line is whole.
  std::string meta;
  std::vector<UnitRecord> units;
  /// Hash of the last line's body.
  Hash last;
  /// Bytes of the whole lines. More than these were never acknowledged: their writer died.
  uint64_t whole_bytes = 0;
};

/// Errors: FormatError, from kRecordSyntax to kDuplicate. A last line without its end is left out,
/// not an error.
Journal parse_journal(std::span<const std::byte> bytes);

/// Appends lines; each is durable when the call returns.
class JournalWriter {
 public:
  /// Goes on after `journal`, cutting off what was never acknowledged.
  JournalWriter(File file, const Journal& journal, System& system, std::string where);

  void begin(const std::string& meta);
  void append(const UnitRecord& unit);

 private:
  void write_line(const std::string& body);

  File file_;
  System* system_;
  std::string where_;
  uint64_t size_;
  uint64_t lines_;
  Hash last_;
};

}  // namespace rlreplay::format
