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
[[nodiscard]] Journal parse_journal(std::span<const std::byte> bytes);

/// The journal of these units.
std::string journal_text(const std::string& meta, const std::vector<UnitRecord>& units);

/// Appends lines; each is durable when the call returns.
class JournalWriter {
 public:
  /// Goes on after `journal`, cutting off what was never acknowledged. `file` is opened for reading
  /// too.
  JournalWriter(Descriptor file, const Journal& journal, System& system, std::string where);

  void begin(const std::string& meta);
  void append(const UnitRecord& unit);

  /// What was written, however the file looks by now.
  uint64_t size() const { return size_; }
  Hash hash() const { return hasher_.finish(); }
  /// Whether the file still has a name and the size that was written, and (`reread`) its bytes.
  [[nodiscard]] bool is_intact(bool reread) const;

 private:
  void write_line(const std::string& body);

  Descriptor file_;
  System* system_;
  std::string where_;
  uint64_t size_;
  uint64_t lines_;
  Hash last_;
  Hasher hasher_;  // of all that was written
};

}  // namespace rlreplay::format
