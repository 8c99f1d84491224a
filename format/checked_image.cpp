#include "format/checked_image.h"

#include <utility>

#include "format/rule.h"

namespace rlreplay::format {

CheckedImage::CheckedImage(Buffer<std::byte> bytes, uint64_t size, const Hash& hash,
                           const std::string& path)
    : bytes_(std::move(bytes)) {
  if (bytes_.size() != size) {
    throw FormatError(
        Rule::kUnitSize,
        "the file has " + std::to_string(bytes_.size()) + " bytes, not " + std::to_string(size),
        path);
  }
  if (hash_of(this->bytes()) != hash) {
    throw FormatError(Rule::kUnitHash, "the stored bytes are not those that were written", path);
  }
}

}  // namespace rlreplay::format
