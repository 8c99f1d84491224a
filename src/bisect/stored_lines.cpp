#include "src/bisect/stored_lines.h"

#include <filesystem>
#include <fstream>
#include <optional>

#include "src/base/error.h"

namespace rlreplay::bisect {
namespace {

/// Nothing of a line that is no JSON: a kill or a full disk has cut it.
std::optional<JsonDocument> whole(const std::string& line, const std::string& path) {
  try {
    return JsonDocument::parse(line, path);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCorrupt) throw;
    return std::nullopt;
  }
}

}  // namespace

void each_line(const std::string& path, const std::string& what, const std::string& advice,
               const std::function<void(const JsonValue&)>& take) {
  std::error_code ignored;
  std::ifstream lines(path);
  if (!lines && !std::filesystem::exists(path, ignored)) return;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    const auto document = whole(line, path);
    try {
      if (document) take(document->root());
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kCorrupt) throw;
      throw Error(error.code(),
                  what + " cannot be read (" + std::string(error.what()) + "): " + advice, path);
    }
  }
  if (lines.eof()) return;
  throw Error(ErrorCode::kEnvironment,
              "cannot read this file to its end: make it readable, or remove it", path);
}

}  // namespace rlreplay::bisect
