#pragma once

#include <filesystem>

namespace rlreplay {

/// The file of the program that runs. Errors: kEnvironment where /proc does not say it.
[[nodiscard]] std::filesystem::path own_program();

/// A program that is installed beside it, which need not be there.
[[nodiscard]] inline std::filesystem::path program_beside(const char* name) {
  return own_program().parent_path() / name;
}

}  // namespace rlreplay
