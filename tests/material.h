#pragma once

#include <filesystem>
#include <vector>

#include "tests/environment.h"

namespace rlreplay::test {

/// Folders with models/ and dumps/ of one layout: what tests/material makes, and the reference
/// material where there is some.
inline std::vector<std::filesystem::path> material_folders() {
  std::vector<std::filesystem::path> folders{RLREPLAY_TEST_MATERIAL};
  if (const auto reference = reference_folder()) folders.emplace_back(*reference);
  return folders;
}

}  // namespace rlreplay::test
