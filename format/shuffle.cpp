#include "format/shuffle.h"

#include <cstdint>
#include <cstring>

#include "src/base/error.h"

namespace rlreplay::format {
namespace {

constexpr size_t kLanes = 16;
using Bytes16 __attribute__((vector_size(kLanes))) = uint8_t;

Bytes16 load(const uint8_t* p) {
  Bytes16 v;
  std::memcpy(&v, p, kLanes);
  return v;
}
void store(uint8_t* p, Bytes16 v) { std::memcpy(p, &v, kLanes); }

/// The halves of a0 b0 a1 b1 ...
Bytes16 low(Bytes16 a, Bytes16 b) {
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}
Bytes16 high(Bytes16 a, Bytes16 b) {
  return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15,
                                 31);
}

/// Their inverses: every second byte of a and b in a row.
Bytes16 even(Bytes16 a, Bytes16 b) {
  return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
}
Bytes16 odd(Bytes16 a, Bytes16 b) {
  return __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
}

// 16 elements are kElement vectors of 16 bytes. Interleaving the two halves of these vectors,
// log2(kElement) times, turns planes into elements; splitting them as often turns them back.
template <size_t kElement>
void shuffle_by(const uint8_t* in, size_t count, uint8_t* out) {
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    Bytes16 v[kElement], w[kElement];
    for (size_t j = 0; j < kElement; ++j) v[j] = load(in + i * kElement + j * kLanes);
    for (size_t round = 1; round < kElement; round *= 2) {
      for (size_t j = 0; j < kElement / 2; ++j) {
        w[j] = even(v[2 * j], v[2 * j + 1]);
        w[j + kElement / 2] = odd(v[2 * j], v[2 * j + 1]);
      }
      for (size_t j = 0; j < kElement; ++j) v[j] = w[j];
    }
    for (size_t j = 0; j < kElement; ++j) store(out + j * count + i, v[j]);
  }
  for (; i < count; ++i) {
    for (size_t j = 0; j < kElement; ++j) out[j * count + i] = in[i * kElement + j];
  }
}

template <size_t kElement>
void unshuffle_by(const uint8_t* in, size_t count, uint8_t* out) {
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    Bytes16 v[kElement], w[kElement];
    for (size_t j = 0; j < kElement; ++j) v[j] = load(in + j * count + i);
    for (size_t round = 1; round < kElement; round *= 2) {
      for (size_t j = 0; j < kElement / 2; ++j) {
        w[2 * j] = low(v[j], v[j + kElement / 2]);
        w[2 * j + 1] = high(v[j], v[j + kElement / 2]);
      }
      for (size_t j = 0; j < kElement; ++j) v[j] = w[j];
    }
    for (size_t j = 0; j < kElement; ++j) store(out + i * kElement + j * kLanes, v[j]);
  }
  for (; i < count; ++i) {
    for (size_t j = 0; j < kElement; ++j) out[i * kElement + j] = in[j * count + i];
  }
}

const uint8_t* bytes(std::span<const std::byte> s) {
  return reinterpret_cast<const uint8_t*>(s.data());
}
uint8_t* bytes(std::span<std::byte> s) { return reinterpret_cast<uint8_t*>(s.data()); }

}  // namespace

void shuffle(std::span<const std::byte> in, size_t element, std::span<std::byte> out) {
  const size_t count = in.size() / element;
  switch (element) {
    case 2:
      return shuffle_by<2>(bytes(in), count, bytes(out));
    case 4:
      return shuffle_by<4>(bytes(in), count, bytes(out));
    case 8:
      return shuffle_by<8>(bytes(in), count, bytes(out));
    default:
      check(false, "elements of 2, 4 or 8 bytes can be shuffled");
  }
}

void unshuffle(std::span<const std::byte> in, size_t element, std::span<std::byte> out) {
  const size_t count = in.size() / element;
  switch (element) {
    case 2:
      return unshuffle_by<2>(bytes(in), count, bytes(out));
    case 4:
      return unshuffle_by<4>(bytes(in), count, bytes(out));
    case 8:
      return unshuffle_by<8>(bytes(in), count, bytes(out));
    default:
      check(false, "elements of 2, 4 or 8 bytes can be unshuffled");
  }
}

void xor_into(std::span<std::byte> out, std::span<const std::byte> other) {
  uint8_t* __restrict a = bytes(out);
  const uint8_t* __restrict b = bytes(other);
  for (size_t i = 0; i < out.size(); ++i) a[i] = static_cast<uint8_t>(a[i] ^ b[i]);
}

}  // namespace rlreplay::format
