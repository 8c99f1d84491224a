#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "format/unit_reader.h"
#include "format/unit_writer.h"
#include "tests/environment.h"
#include "tests/random.h"
#include "tests/temporary_folder.h"

/// What the tests of the format share: reproducible values.
namespace rlreplay::format::test {

using rlreplay::test::full;
using rlreplay::test::Random;
using rlreplay::test::TemporaryFolder;

/// Bytes that compress a little: low halves random, high halves small.
inline std::vector<std::byte> values(Random& random, size_t bytes) {
  std::vector<std::byte> out(bytes);
  for (size_t i = 0; i < bytes; ++i) {
    out[i] = static_cast<std::byte>(i % 4 < 2 ? random.below(256) : random.below(3));
  }
  return out;
}

[[gnu::noinline]] inline Dataset dataset(std::string path, DType dtype, std::vector<uint64_t> shape,
                                         Random& random) {
  const uint64_t bytes = *elements_of(shape) * size_of(dtype);
  return dataset_of(std::move(path), dtype, std::move(shape), values(random, bytes));
}

inline Buffer<std::byte> copy_of(std::span<const std::byte> bytes) {
  Buffer<std::byte> copy(bytes.size());
  if (!bytes.empty()) std::memcpy(copy.data(), bytes.data(), bytes.size());
  return copy;
}

inline std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

}  // namespace rlreplay::format::test
