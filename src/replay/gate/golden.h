#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/base/golden_file.h"
#include "src/replay/gate/quarantine.h"
#include "src/replay/gate/tolerance.h"

namespace rlreplay::gate {

/// What a golden file holds, by what its lines mean (docs/golden.md): `about NAME`,
/// `environment NAME`, `option NAME`, `input NAME`, `quarantine NAME`, `tolerance PATTERN`, and all
/// others, which are the values.
struct Golden {
  std::string made_by = {};
  GoldenEntries about = {};        // class, commit, contract, reason, run, ...
  GoldenEntries environment = {};  // of what recorded
  GoldenEntries options = {};      // of a run of ours: all that change its bits, defaults too
  GoldenEntries inputs = {};       // hashes of the files that a run of ours is given
  std::vector<Tolerance> tolerances = {};  // by pattern
  std::optional<Quarantine> quarantine = {};
  GoldenEntries values = {};
};

/// What a file's lines say; `where` names the file in errors, and file_of() gives the lines again.
/// Errors: kUsage, those of a tolerance and a quarantine.
[[nodiscard]] Golden golden_of(const GoldenFile& file, const std::string& where);
[[nodiscard]] GoldenFile file_of(const Golden& golden);

/// Reads a golden file.
/// Errors: those of read_golden; kUsage for a tolerance, or a quarantine, that is none.
[[nodiscard]] Golden read(const std::string& path);

/// Writes a golden file. Errors: those of write_golden.
void write(const std::string& path, const Golden& golden);

/// What `about` says; empty where it says nothing.
[[nodiscard]] std::string about(const Golden& golden, const std::string& name);

/// Why values could not show a change: none at all, one that is not finite, a gradient norm that is
/// 0 at every step, or nothing but zeros. Empty where they could.
[[nodiscard]] std::string emptiness_of(const GoldenEntries& values);

}  // namespace rlreplay::gate
