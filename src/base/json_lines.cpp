#include "src/base/json_lines.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <string_view>

#include "src/base/environment_error.h"
#include "src/base/input_file.h"

namespace rlreplay {
namespace {

constexpr size_t kBlock = 1 << 16;

std::unique_ptr<std::istream> open(const std::string& path) {
  check_regular_file(path);
  errno = 0;
  auto file = std::make_unique<std::ifstream>(path, std::ios::binary);
  file->peek();
  if (!file->is_open() || file->bad()) {
    throw Error(ErrorCode::kIncomplete,
                std::string("cannot read the file: ") + std::strerror(errno), path);
  }
  file->clear();  // an empty file is no error yet
  return file;
}

}  // namespace

JsonLines::JsonLines(std::unique_ptr<std::istream> stream, std::string name, size_t max_line_bytes,
                     bool unique_keys)
    : stream_(std::move(stream)),
      name_(std::move(name)),
      max_line_bytes_(max_line_bytes),
      unique_keys_(unique_keys),
      block_(kBlock) {}

JsonLines::JsonLines(const std::string& path, size_t max_line_bytes, bool unique_keys)
    : JsonLines(open(path), path, max_line_bytes, unique_keys) {}

/// False at the end of the file. A line that is too long is not read to its end.
bool JsonLines::read_line() {
  line_.clear();
  place_ = {consumed_, number_ + 1};
  bool any = false;
  for (;;) {
    if (used_ == filled_) {
      stream_->read(block_.data(), static_cast<std::streamsize>(block_.size()));
      used_ = 0;
      filled_ = static_cast<size_t>(stream_->gcount());
      if (filled_ == 0) {
        if (stream_->bad()) throw environment_error("reading the file failed", name_);
        number_ += any ? 1 : 0;
        return any;
      }
    }
    any = true;
    const std::string_view rest(block_.data() + used_, filled_ - used_);
    const size_t end = rest.find('\n');
    line_.append(rest.substr(0, end));
    const size_t taken = end == rest.npos ? rest.size() : end + 1;
    used_ += taken;
    consumed_ += taken;
    if (line_.size() > max_line_bytes_) {
      throw Error(ErrorCode::kCorrupt,
                  "the line has more than " + std::to_string(max_line_bytes_) +
                      " bytes, the most that is read of one",
                  name_ + ":" + std::to_string(number_ + 1));
    }
    if (end != rest.npos) {
      ++number_;
      return true;
    }
  }
}

std::optional<JsonDocument> JsonLines::next() {
  while (read_line()) {
    if (line_.find_first_not_of(" \t\r") == line_.npos) continue;
    JsonDocument document = JsonDocument::parse(line_, name_ + ":" + std::to_string(number_),
                                                {.unique_keys = unique_keys_});
    const JsonValue root = document.root();
    if (!root.is_object()) {
      throw root.error("the line is " + root.dump().substr(0, 100) +
                       "; each line must be a JSON object");
    }
    return document;
  }
  return std::nullopt;
}

JsonDocument JsonLines::at(const Place& place) {
  stream_->clear();
  stream_->seekg(static_cast<std::streamoff>(place.offset));
  used_ = filled_ = 0;
  consumed_ = place.offset;
  number_ = place.number - 1;
  if (auto document = next()) {
    if (place_.offset == place.offset) return std::move(*document);
  }
  throw Error(ErrorCode::kCorrupt,
              "the line is not there any more: a file that is read twice must be no pipe, and stay "
              "as it is",
              name_ + ":" + std::to_string(place.number));
}

JsonLines open_lines(const std::string& path) {
  if (path != "-") return JsonLines(path);
  return {std::make_unique<std::istream>(std::cin.rdbuf()), "standard input"};
}

}  // namespace rlreplay
