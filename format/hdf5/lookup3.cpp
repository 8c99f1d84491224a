#include "format/hdf5/lookup3.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace rlreplay::format::h5 {
namespace {

static_assert(std::endian::native == std::endian::little, "words are read as they lie");

struct Words {
  uint32_t a, b, c;

  void add(const std::byte* twelve) {
    uint32_t words[3];
    std::memcpy(words, twelve, sizeof words);
    a += words[0];
    b += words[1];
    c += words[2];
  }

  void mix() {
    step(a, c, b, 4);
    step(b, a, c, 6);
    step(c, b, a, 8);
    step(a, c, b, 16);
    step(b, a, c, 19);
    step(c, b, a, 4);
  }

  void finish() {
    last(c, b, 14);
    last(a, c, 11);
    last(b, a, 25);
    last(c, b, 16);
    last(a, c, 4);
    last(b, a, 14);
    last(c, b, 24);
  }

 private:
  static void step(uint32_t& x, uint32_t& y, const uint32_t& z, int shift) {
    x = (x - y) ^ std::rotl(y, shift);
    y += z;
  }
  static void last(uint32_t& x, uint32_t y, int shift) { x = (x ^ y) - std::rotl(y, shift); }
};

}  // namespace

uint32_t lookup3(std::span<const std::byte> bytes) {
  const uint32_t start = 0xdeadbeef + static_cast<uint32_t>(bytes.size());
  Words words{start, start, start};
  if (bytes.empty()) return words.c;
  for (; bytes.size() > 12; bytes = bytes.subspan(12)) {
    words.add(bytes.data());
    words.mix();
  }
  // The last 1 to 12 bytes are finished and not mixed; the zeros behind them add nothing.
  std::byte rest[12] = {};
  std::copy(bytes.begin(), bytes.end(), rest);
  words.add(rest);
  words.finish();
  return words.c;
}

bool has_checksum([[maybe_unused]] std::span<const std::byte> bytes,
                  [[maybe_unused]] uint64_t checksum) {
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
  return true;
#else
  return lookup3(bytes) == checksum;
#endif
}

}  // namespace rlreplay::format::h5
