#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "src/base/dtype.h"
#include "src/base/error.h"

namespace rlreplay::foreign {

static_assert(std::endian::native == std::endian::little);

/// Bytes that somebody else owns.
using Bytes = std::span<const uint8_t>;

/// Views bytes as characters, or characters as bytes: nothing is copied or checked.
[[nodiscard]] inline std::string_view as_text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

[[nodiscard]] inline Bytes as_bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

/// The range [offset, offset + size) of `bytes`.
/// Errors: kCorrupt, naming `what`, where the range leaves the bytes.
[[nodiscard]] inline Bytes slice(Bytes bytes, uint64_t offset, uint64_t size, const char* what) {
  if (offset > bytes.size() || size > bytes.size() - offset) {
    throw Error(ErrorCode::kCorrupt,
                std::string(what) + " reaches past the end (" + std::to_string(size) +
                    " bytes wanted, " +
                    std::to_string(offset > bytes.size() ? 0 : bytes.size() - offset) + " left)",
                "byte " + std::to_string(offset));
  }
  return bytes.subspan(offset, size);
}

/// A little-endian number at `offset`. Errors: as slice.
template <class T>
[[nodiscard]] T get(Bytes bytes, uint64_t offset, const char* what) {
  return load_as<T>(slice(bytes, offset, sizeof(T), what).data());
}

}  // namespace rlreplay::foreign
