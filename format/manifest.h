#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "format/unit.h"

namespace rlreplay::format {

inline constexpr char kManifestName[] = "manifest.json";
inline constexpr uint64_t kMaxManifestBytes = uint64_t{64} << 20;
inline constexpr size_t kMaxUnits = 1'000'000;

/// The dump that was rewritten in a newer version.
struct DerivedFrom {
  std::string version;  // `0.1`
  Hash root;

  friend bool operator==(const DerivedFrom&, const DerivedFrom&) = default;
};

/// The last file of a dump to be written: what it consists of.
struct Manifest {
  /// The version of the format, as `0.9`.
  std::string version;
  /// False when the dump was closed after its writer had died.
  bool complete = true;
  /// Canonical JSON; part of the root.
  std::string meta = "{}";
  /// Canonical JSON of what differs from run to run: times, host names. Not part of the root.
  std::string unstable = "{}";
  /// Sorted by path.
  std::vector<UnitRecord> units;
  Hash root;
  std::optional<DerivedFrom> derived_from;
  uint64_t journal_size = 0;
  Hash journal_hash;
};

/// The hash of everything that a dump means: `meta`, and each unit's path and content.
Hash root_of(const std::string& meta, const std::vector<UnitRecord>& sorted_units);

std::string manifest_text(const Manifest& manifest);

/// Errors: FormatError, from kRecordSyntax to kRoot.
[[nodiscard]] Manifest parse_manifest(std::span<const std::byte> bytes);

}  // namespace rlreplay::format
