#pragma once

#include <cstdlib>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/base/json_value.h"
#include "src/task/bpe.h"
#include "tests/environment.h"

namespace rlreplay::test {

inline std::string data_path(const std::string& name) {
  return std::string(RLREPLAY_TEST_DATA) + "/" + name;
}

/// Folders with a tokenizer as a checkpoint has it, and its cases: the project's own, and that of
/// the reference material where there is some.
inline std::vector<std::string> tokenizer_folders() {
  std::vector<std::string> folders{data_path("chat")};
  if (const auto reference = reference_folder()) {
    folders.push_back(*reference + "/models/tokenizer");
  }
  return folders;
}

/// How often heavy loops run: `quick` times, ten times as often with RLREPLAY_FULL=1.
inline int repetitions(int quick) {
  const char* full = std::getenv("RLREPLAY_FULL");
  return full != nullptr && std::string(full) == "1" ? 10 * quick : quick;
}

inline std::vector<std::string> read_lines(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

inline std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

inline std::vector<TokenId> ids_of(const JsonValue& array) {
  std::vector<TokenId> ids;
  for (size_t i = 0; i < array.size(); ++i) {
    ids.push_back(static_cast<TokenId>(array.at(i).integer(0, INT32_MAX)));
  }
  return ids;
}

/// The error that a call ends with; nothing where it succeeds.
inline std::optional<Error> error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e;
  }
  return std::nullopt;
}

}  // namespace rlreplay::test
