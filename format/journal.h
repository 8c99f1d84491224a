#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/folder.h"
#include "format/unit.h"

namespace rlreplay::format {

/// Where the journals of a dump lie, one of each writer.
inline constexpr char kJournalFolder[] = "journal";

/// The one journal of a dump of version 0.1.
inline constexpr char kOldJournalName[] = "journal.jsonl";
inline constexpr uint64_t kMaxJournalBytes = uint64_t{1} << 30;

/// The path of a writer's journal; of no name that of version 0.1.
[[nodiscard]] std::string journal_path(std::string_view writer);

/// The writer whose journal has this path; nothing where it is no journal's.
[[nodiscard]] std::optional<std::string> writer_of(std::string_view path);

/// What the journal of a writer acknowledges.
struct Journal {
  /// The writer's name, as the file's name has it; empty in version 0.1.
  std::string writer;
  /// The version of the format, as `1.0`.
  std::string version;
  /// The configuration, as canonical JSON; empty when not even the first line is whole.
  std::string meta;
  std::vector<UnitRecord> units;
  /// Whether its writer said that it has done.
  bool ended = false;
  /// Hash of the last line's body.
  Hash last;
  /// Whole lines, and their bytes. More than these were never acknowledged: their writer died.
  uint64_t lines = 0;
  uint64_t whole_bytes = 0;
};

/// Reads a journal, a piece of the file at a time. A last line without its end is left out: it was
/// never acknowledged. Errors: FormatError, from kRecordSyntax to kWriter.
[[nodiscard]] Journal read_journal(const OpenFile& file);

/// Reads a journal from bytes in memory, as a fuzzer has them; `path` is what errors name.
[[nodiscard]] Journal parse_journal(std::span<const std::byte> bytes, const std::string& path);

/// Reads the first line of a journal alone, which must be whole. Errors: as of read_journal.
[[nodiscard]] Journal read_head(const OpenFile& file);

/// How many lines end behind byte `from` of a file.
[[nodiscard]] uint64_t count_lines(const OpenFile& file, uint64_t from);

/// A journal of these units.
[[nodiscard]] std::string journal_text(const std::string& writer, const std::string& meta,
                                       std::span<const UnitRecord> units);

/// Appends lines; each is durable when the call returns.
class JournalWriter {
 public:
  /// Goes on after `journal`, cutting off what was never acknowledged. `file` is opened for reading
  /// too, and holds the lock.
  JournalWriter(Descriptor file, const Journal& journal, System& system, std::string where);

  const std::string& writer() const { return writer_; }
  void begin(const std::string& meta);
  void append(std::span<const UnitRecord> units);
  /// Ends the journal with the line that says so; nothing follows.
  void end();
  [[nodiscard]] bool ended() const { return ended_; }

  /// What was written, however the file looks by now.
  uint64_t size() const { return size_; }
  Hash hash() const { return hasher_.finish(); }
  /// Whether the file still has a name and the size that was written, and (`reread`) its bytes.
  [[nodiscard]] bool is_intact(bool reread) const;

 private:
  void write_lines(std::span<const std::string> bodies);

  Descriptor file_;
  System* system_;
  std::string writer_, where_;
  uint64_t size_;
  uint64_t lines_;
  Hash last_;
  bool ended_;
  Hasher hasher_;  // of all that was written
};

/// Hashes the first `size` bytes of a file.
[[nodiscard]] Hasher hash_file(int file, uint64_t size, const std::string& where);

}  // namespace rlreplay::format
