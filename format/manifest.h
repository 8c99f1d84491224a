#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "format/unit.h"
#include "format/unit_index.h"

namespace rlreplay::format {

inline constexpr char kManifestName[] = "manifest.json";
inline constexpr uint64_t kMaxManifestBytes = uint64_t{64} << 20;
inline constexpr size_t kMaxWriters = 65'536;

/// The dump that was rewritten in a newer version.
struct DerivedFrom {
  std::string version;  // `0.1`
  Hash root;

  friend bool operator==(const DerivedFrom&, const DerivedFrom&) = default;
};

/// A writer's journal, as the manifest names it.
struct JournalEntry {
  std::string writer;  // empty in version 0.1
  uint64_t size = 0;
  Hash hash;
  /// Whether its writer said that it has done.
  bool ended = true;

  friend bool operator==(const JournalEntry&, const JournalEntry&) = default;
};

/// The index of units, as the manifest names it.
struct IndexEntry {
  uint64_t size = 0, units = 0;
  Hash hash;

  friend bool operator==(const IndexEntry&, const IndexEntry&) = default;
};

/// The last file of a dump to be written: what it consists of.
struct Manifest {
  /// The version of the format, as `1.0`.
  std::string version;
  /// Whether all writers ended; false when the dump was closed after one had died.
  bool complete = true;
  /// Canonical JSON; part of the root.
  std::string meta = "{}";
  /// Canonical JSON of what differs from run to run: times, host names. Not part of the root.
  std::string unstable = "{}";
  IndexEntry index;
  /// The units of version 0.1, which had no index, sorted by path.
  std::vector<UnitRecord> old_units;
  Hash root;
  std::optional<DerivedFrom> derived_from;
  /// The journals of all writers, sorted by writer.
  std::vector<JournalEntry> journals;
};

/// The manifest as a file holds it: one record, a line of JSON with its hash.
[[nodiscard]] std::string manifest_text(const Manifest& manifest);

/// Errors: FormatError, from kRecordSyntax to kSchema.
[[nodiscard]] Manifest parse_manifest(std::span<const std::byte> bytes);

}  // namespace rlreplay::format
