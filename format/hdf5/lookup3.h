#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rlreplay::format::h5 {

/// The checksum of HDF5's metadata: Bob Jenkins's lookup3 ("hashlittle") with initial value 0.
/// Source: lookup3.c, burtleburtle.net/bob/c/lookup3.c (2006, public domain).
[[nodiscard]] uint32_t lookup3(std::span<const std::byte> bytes);

/// Whether bytes have this checksum; in builds for fuzzers all have, to let them look behind it.
[[nodiscard]] bool has_checksum(std::span<const std::byte> bytes, uint64_t checksum);

}  // namespace rlreplay::format::h5
