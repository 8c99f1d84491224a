#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "format/dump_reader.h"

namespace rlreplay::replay {

/// Where the foreign files differ that a unit of both keeps, and what each says there: empty where
/// they say the same, nothing where that is not known.
using KeptFinder = std::function<std::optional<std::string>(
    const format::DumpReader& a, const format::DumpReader& b, const std::string& unit)>;

/// What imported dumps keep beside their content, where two do not keep the same.
struct BesideContent {
  size_t kept = 0;                 // foreign files that differ, or that one of both keeps
  size_t inputs = 0;               // samples that only one says are made from more than tokens
  std::string keeps_alone;         // "A" or "B", where the other keeps no foreign file at all
  std::vector<std::string> notes;  // a sentence each, of many kept files the first few
};

/// Compares kept files by their hashes, and with `find` by what they say, and the samples that are
/// made from more than tokens. Without `find` a file written otherwise counts as differing.
[[nodiscard]] BesideContent compare_beside(const format::DumpReader& a, const format::DumpReader& b,
                                           const KeptFinder& find);

}  // namespace rlreplay::replay
