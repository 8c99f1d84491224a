#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <unistd.h>

#include "format/unit_reader.h"
#include "format/unit_writer.h"

/// What the tests of the format share: reproducible values and folders that vanish.
namespace rlreplay::format::test {

/// splitmix64: the same numbers on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t bits() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  uint64_t below(uint64_t n) { return bits() % n; }

 private:
  uint64_t state_;
};

/// A folder of its own, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    // Memory where there is some: a disk would spend minutes on making every small file durable.
    const std::filesystem::path memory = "/dev/shm";
    const auto parent =
        std::filesystem::exists(memory) ? memory : std::filesystem::temp_directory_path();
    std::string name = (parent / "rlreplay-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

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

/// Whether the loops run in full length.
inline bool full() { return std::getenv("RLREPLAY_FULL") != nullptr; }

}  // namespace rlreplay::format::test
