#pragma once

#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>

#include "src/base/golden_file.h"

namespace rlreplay::test {

/// Whether golden files take what is now: for a change that is meant, with its reason.
inline bool records() {
  const char* record = std::getenv("RLREPLAY_RECORD");
  return record != nullptr && std::string(record) == "1";
}

/// Requires that `now` is what the golden file holds. With RLREPLAY_RECORD=1 in the environment the
/// file takes what is now instead: for a change of bits that is meant, with its reason.
inline void check_golden(const std::string& path, const GoldenEntries& now) {
  GoldenFile file = read_golden(path);
  const auto differences = compare_golden(file.entries, now);
  if (records()) {
    file.entries = now;
    write_golden(path, file);
    return;
  }
  INFO(path << " differs:\n" << to_string(differences));
  CHECK(differences.empty());
}

}  // namespace rlreplay::test
