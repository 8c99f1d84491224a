#pragma once

#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>

#include "src/base/golden.h"

namespace rlreplay::test {

/// Requires that `now` is what the golden file holds. With RLREPLAY_RECORD=1 in the environment the
/// file takes what is now instead: for a change of bits that is meant, with its reason.
inline void check_golden(const std::string& path, const GoldenEntries& now) {
  GoldenFile file = read_golden(path);
  const auto differences = compare_golden(file.entries, now);
  const char* record = std::getenv("RLREPLAY_RECORD");
  if (record != nullptr && std::string(record) == "1") {
    file.entries = now;
    write_golden(path, file);
    return;
  }
  INFO(path << " differs:\n" << to_string(differences));
  CHECK(differences.empty());
}

}  // namespace rlreplay::test
