#pragma once

#include <optional>
#include <string>

#include "src/base/golden_file.h"

namespace rlreplay::gate {

/// A mismatch that somebody knows of and is to end: until that day it turns no gate red.
struct Quarantine {
  std::string until;  // the last such day, 2026-12-31
  std::string owner;
  std::string reason;

  friend bool operator==(const Quarantine&, const Quarantine&) = default;
};

/// `until 2026-12-31, OWNER: REASON`
[[nodiscard]] std::string to_string(const Quarantine& quarantine);

/// What the lines `quarantine NAME` of a file say. Errors: kUsage for a day that is none, and where
/// one of the three is missing.
[[nodiscard]] Quarantine quarantine_of(const GoldenEntries& lines, const std::string& where);
[[nodiscard]] GoldenEntries lines_of(const Quarantine& quarantine);

/// The day in UTC.
[[nodiscard]] std::string today();

/// Whether there is one that has not ended.
[[nodiscard]] bool holds(const std::optional<Quarantine>& quarantine, const std::string& day);

}  // namespace rlreplay::gate
