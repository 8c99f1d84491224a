#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace rlreplay {

/// The hash of stored bytes: XXH3-128 with seed 0. It finds accidents, not adversaries: it is no
/// signature. (The *digest* of a tensor is another thing: it does not depend on storage.)
struct Hash {
  uint64_t high = 0;
  uint64_t low = 0;

  friend bool operator==(const Hash&, const Hash&) = default;
  friend auto operator<=>(const Hash&, const Hash&) = default;

  /// 32 lower-case hexadecimal digits, the high half first.
  std::string hex() const;
  /// Nothing unless `text` is what `hex` prints.
  [[nodiscard]] static std::optional<Hash> from_hex(std::string_view text);
};

[[nodiscard]] Hash hash_of(std::span<const std::byte> bytes);
[[nodiscard]] Hash hash_of(std::string_view text);

/// XXH3-128 with another seed than 0.
[[nodiscard]] Hash hash_of(std::span<const std::byte> bytes, uint64_t seed);

/// XXH3-64 with seed 0: the seed of another hash, and no identity.
[[nodiscard]] uint64_t seed_of(std::span<const std::byte> bytes);

/// Hashes bytes that come in pieces: `finish` gives the hash_of of all so far.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;

  void update(std::span<const std::byte> bytes);
  Hash finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The version of the library that hashes: `0.8.1`.
[[nodiscard]] std::string xxhash_version();

}  // namespace rlreplay
