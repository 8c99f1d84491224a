#include "format/shuffle.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "src/base/error.h"

namespace rlreplay::format {
namespace {

// The loops over a block of elements stay in the first cache level and have constant strides, so
// that the compiler turns them into packing instructions.
constexpr size_t kBlock = 1024;

template <size_t kElement>
void shuffle_by(const uint8_t* __restrict in, size_t count, uint8_t* __restrict out) {
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t n = std::min(kBlock, count - begin);
    const uint8_t* block = in + begin * kElement;
    for (size_t b = 0; b < kElement; ++b) {
      uint8_t* plane = out + b * count + begin;
      for (size_t i = 0; i < n; ++i) plane[i] = block[i * kElement + b];
    }
  }
}

template <class Word>
void unshuffle_by(const uint8_t* __restrict in, size_t count, uint8_t* __restrict out) {
  constexpr size_t kElement = sizeof(Word);
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t n = std::min(kBlock, count - begin);
    Word words[kBlock];
    for (size_t i = 0; i < n; ++i) {
      Word word = 0;
      for (size_t b = 0; b < kElement; ++b) {
        word = static_cast<Word>(word | static_cast<Word>(in[b * count + begin + i]) << (8 * b));
      }
      words[i] = word;
    }
    std::memcpy(out + begin * kElement, words, n * kElement);
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
      return unshuffle_by<uint16_t>(bytes(in), count, bytes(out));
    case 4:
      return unshuffle_by<uint32_t>(bytes(in), count, bytes(out));
    case 8:
      return unshuffle_by<uint64_t>(bytes(in), count, bytes(out));
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
