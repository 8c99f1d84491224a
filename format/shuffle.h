#pragma once

#include <cstddef>
#include <span>

namespace rlreplay::format {

/// HDF5's shuffle: byte 0 of every element, then byte 1 of every element, and so on. `in` and
/// `out` have the same size, a multiple of `element`, and do not overlap.
void shuffle(std::span<const std::byte> in, size_t element, std::span<std::byte> out);

/// The inverse of `shuffle`.
void unshuffle(std::span<const std::byte> in, size_t element, std::span<std::byte> out);

/// out[i] ^= other[i]
void xor_into(std::span<std::byte> out, std::span<const std::byte> other);

}  // namespace rlreplay::format
