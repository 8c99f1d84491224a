#pragma once

#include <cstddef>
#include <string>
#include <vector>

/// The checksums of an HDF5 file, made to fit again after its metadata was changed.
namespace rlreplay::format::test {

/// A structure with a checksum: `size` bytes, in which those of a checksum inside count as zeros.
struct Block {
  size_t begin = 0;
  size_t size = 0;
  size_t checksum = 0;  // where it stands
};

/// All structures of a sound file, found by their signatures and by trying.
std::vector<Block> find_blocks(const std::string& file);

void repair(std::string& file, const std::vector<Block>& blocks);

}  // namespace rlreplay::format::test
