#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "format/dump_reader.h"
#include "format/rule.h"

namespace rlreplay::format {

/// What is known of a dump after it was checked.
struct VerifyReport {
  /// Whether all its writers ended it themselves.
  bool complete = false;
  bool sealed = false;
  /// The version of the format, as `1.0`.
  std::string version;
  Hash root;
  uint64_t units = 0;
  /// Units without a problem.
  uint64_t whole_units = 0;
  /// Steps of which every rank's unit is whole.
  uint64_t whole_steps = 0;
  /// All problems in the order in which they were found; empty when all is well.
  std::vector<Problem> problems;
};

/// Checks a dump and goes on after a problem where it can. Every stored byte is checked against its
/// hash; `deep` also opens every unit, decodes all of it, and checks its meaning.
/// Errors: kEnvironment only; everything else is in the report.
[[nodiscard]] VerifyReport verify(const std::string& path, bool deep,
                                  const ReaderOptions& options = {});

/// Checks the records of a dump alone: manifest, index and journals are whole, and every unit is
/// there with its size. No byte of a unit is read. Errors: kEnvironment only.
[[nodiscard]] VerifyReport verify_quick(const std::string& path, const ReaderOptions& options = {});

}  // namespace rlreplay::format
