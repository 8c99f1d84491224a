#include "tests/format/hdf5_blocks.h"

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include "format/hdf5/lookup3.h"

namespace rlreplay::format::test {
namespace {

constexpr size_t kChecksum = 4;

uint32_t checksum_of(std::string_view bytes) {
  return h5::lookup3(std::as_bytes(std::span(bytes.data(), bytes.size())));
}

uint32_t stored(const std::string& file, size_t at) {
  uint32_t value = 0;
  std::memcpy(&value, file.data() + at, sizeof value);
  return value;
}

uint32_t computed(const std::string& file, const Block& block) {
  std::string bytes = file.substr(block.begin, block.size);
  if (block.checksum < block.begin + block.size) {
    bytes.replace(block.checksum - block.begin, kChecksum, kChecksum, '\0');
  }
  return checksum_of(bytes);
}

/// A structure whose checksum stands behind it, of a size to be found.
std::optional<Block> ending(const std::string& file, size_t begin) {
  constexpr size_t kMost = 16 << 10;
  const std::string_view all = file;
  for (size_t size = 6; size < kMost && begin + size + kChecksum <= file.size(); ++size) {
    if (checksum_of(all.substr(begin, size)) == stored(file, begin + size)) {
      return Block{begin, size, begin + size};
    }
  }
  return std::nullopt;
}

/// A heap's direct block: a power of two of bytes, the checksum behind an offset of 4 or 5.
std::optional<Block> direct_block(const std::string& file, size_t begin) {
  for (size_t size = 512; size <= 65536 && begin + size <= file.size(); size *= 2) {
    for (const size_t offset : {4, 5}) {
      const Block block{begin, size, begin + 4 + 1 + 8 + offset};
      if (computed(file, block) == stored(file, block.checksum)) return block;
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<Block> find_blocks(const std::string& file) {
  std::vector<Block> found = {{0, 44, 44}};
  for (size_t at = 48; at + 8 <= file.size(); ++at) {
    const std::string_view signature = std::string_view(file).substr(at, 4);
    std::optional<Block> block;
    if (signature == "FHDB") block = direct_block(file, at);
    for (const char* known :
         {"OHDR", "OCHK", "BTHD", "BTIN", "BTLF", "FRHP", "FHIB", "FAHD", "FADB", "FSHD", "FSSE"}) {
      if (signature == known) block = ending(file, at);
    }
    if (!block) continue;
    found.push_back(*block);
    // Pages of entries have no signature; they lie behind their block.
    while (signature == "FADB" && (block = ending(file, block->checksum + kChecksum))) {
      found.push_back(*block);
    }
  }
  return found;
}

void repair(std::string& file, const std::vector<Block>& blocks) {
  for (const Block& block : blocks) {
    const uint32_t value = computed(file, block);
    std::memcpy(file.data() + block.checksum, &value, sizeof value);
  }
}

}  // namespace rlreplay::format::test
