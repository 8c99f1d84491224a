#pragma once

#include <cstddef>
#include <cstdint>
#include <istream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/json_value.h"

namespace rlreplay {

/// Reads JSONL: an object a line, blank lines skipped.
class JsonLines {
 public:
  static constexpr size_t kMaxLine = size_t{64} << 20;

  /// `unique_keys`: whether a key that occurs twice in an object of a line is an error.
  /// Errors: kIncomplete when the file cannot be opened.
  explicit JsonLines(const std::string& path, size_t max_line_bytes = kMaxLine,
                     bool unique_keys = false);
  /// `name` stands for the path in errors.
  JsonLines(std::unique_ptr<std::istream> stream, std::string name,
            size_t max_line_bytes = kMaxLine, bool unique_keys = false);

  /// The next object, whose place is path:line, or nothing at the end.
  /// Errors: kCorrupt with path:line when a line is too long or no JSON object.
  [[nodiscard]] std::optional<JsonDocument> next();

  /// Where the last object stands in the file.
  struct Place {
    uint64_t offset = 0;
    int64_t number = 0;  // of its line, counted from 1
  };
  Place place() const { return place_; }
  /// The object of a line that was read before; of a file, not of a pipe. What `next` gives after
  /// it is the line behind. Errors: as next; kCorrupt where it is not there any more.
  JsonDocument at(const Place& place);

 private:
  [[nodiscard]] bool read_line();

  std::unique_ptr<std::istream> stream_;
  std::string name_;
  size_t max_line_bytes_;
  bool unique_keys_;
  std::vector<char> block_;
  size_t used_ = 0, filled_ = 0;  // of block_
  std::string line_;
  int64_t number_ = 0;
  uint64_t consumed_ = 0;  // bytes before the next line
  Place place_;
};

/// The lines of a file, or of standard input for "-".
[[nodiscard]] JsonLines open_lines(const std::string& path);

}  // namespace rlreplay
