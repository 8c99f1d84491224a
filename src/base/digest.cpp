#include "src/base/digest.h"

#include <algorithm>
#include <array>
#include <bit>

#include "src/base/error.h"
#include "src/base/hash.h"

namespace rlreplay {
namespace {

static_assert(std::endian::native == std::endian::little, "coordinates are hashed as they lie");

std::string described(std::string_view name, DType dtype, std::span<const int64_t> dims) {
  std::string text(name);
  text.append("|").append(to_string(dtype)).append("|");
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i != 0) text.append(",");
    text.append(std::to_string(dims[i]));
  }
  return text;
}

}  // namespace

/// Modulo 2^128, so that blocks may be added in any order.
Digest& Digest::operator+=(const Digest& other) {
  low += other.low;
  high += other.high + (low < other.low ? 1 : 0);
  return *this;
}

std::string Digest::hex() const { return Hash{high, low}.hex(); }

TensorId::TensorId(std::string_view name, DType dtype, std::span<const int64_t> dims)
    : dtype_(dtype), row_length_(dims.empty() ? 1 : dims.back()) {
  const auto text = described(name, dtype, dims);
  seed_ = seed_of(std::as_bytes(std::span(text)));
}

Digest digest_block(const TensorId& tensor, std::span<const uint64_t> coordinates,
                    std::span<const std::byte> bytes) {
  std::array<uint64_t, 4> key{tensor.seed()};
  check(coordinates.size() < key.size(), "a block has at most three coordinates");
  std::ranges::copy(coordinates, key.begin() + 1);
  const uint64_t seed = seed_of(std::as_bytes(std::span(key).first(1 + coordinates.size())));
  const Hash hash = hash_of(bytes, seed);
  return {hash.high, hash.low};
}

std::vector<int64_t> segment_cuts(int64_t n, int64_t segments) {
  std::vector<int64_t> cuts;
  for (int64_t i = 1; i < segments; ++i) {
    const int64_t cut = n * i / segments;
    if (cut > (cuts.empty() ? 0 : cuts.back()) && cut < n) cuts.push_back(cut);
  }
  return cuts;
}

}  // namespace rlreplay
