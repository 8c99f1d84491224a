#pragma once

#include <cstdint>
#include <span>

#include "format/foreign/bytes.h"

namespace rlreplay::foreign {

/// CRC-32 as zip defines it, of bytes that follow others whose CRC is `before`.
[[nodiscard]] uint32_t crc32(Bytes bytes, uint32_t before = 0);

/// Inflates a raw deflate stream that must fill `out` exactly.
/// Errors: kCorrupt where the stream is broken, ends early, holds more, or leaves input unread.
void inflate_exactly(Bytes deflated, std::span<uint8_t> out);

}  // namespace rlreplay::foreign
