#include "src/base/hash.h"

#include <charconv>
#include <new>

#include "src/base/ascii.h"
#include "src/base/number_text.h"

// Without this switch the header only declares XXH3_state_t, and a Hasher could not hold one.
#define XXH_STATIC_LINKING_ONLY
// The library's dispatch by processor, which the static library of Debian lacks.
#if defined(__x86_64__) && !defined(RLREPLAY_STATIC)
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

namespace rlreplay {
namespace {

Hash converted(XXH128_hash_t hash) { return {hash.high64, hash.low64}; }

Hash hash_of_many(std::span<const std::byte> bytes, uint64_t seed) {
  return converted(XXH3_128bits_withSeed(bytes.data(), bytes.size(), seed));
}

std::optional<uint64_t> from_hex16(std::string_view text) {
  for (const char c : text) {
    if (!is_digit(c) && (c < 'a' || c > 'f')) return std::nullopt;
  }
  uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return value;
}

}  // namespace

std::string Hash::hex() const { return rlreplay::hex(high, 16) + rlreplay::hex(low, 16); }

std::optional<Hash> Hash::from_hex(std::string_view text) {
  if (text.size() != 32) return std::nullopt;
  const auto high = from_hex16(text.substr(0, 16));
  const auto low = from_hex16(text.substr(16));
  if (!high || !low) return std::nullopt;
  return Hash{*high, *low};
}

Hash hash_of(std::span<const std::byte> bytes) {
  return converted(XXH3_128bits(bytes.data(), bytes.size()));
}

Hash hash_of(std::string_view text) { return converted(XXH3_128bits(text.data(), text.size())); }

std::string xxhash_version() {
  return std::to_string(XXH_VERSION_MAJOR) + "." + std::to_string(XXH_VERSION_MINOR) + "." +
         std::to_string(XXH_VERSION_RELEASE);
}

struct alignas(64) Hasher::State {
  XXH3_state_t xxh;
};

Hasher::Hasher() : state_(std::make_unique<State>()) {
  if (XXH3_128bits_reset(&state_->xxh) != XXH_OK) throw std::bad_alloc();
}
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

void Hasher::update(std::span<const std::byte> bytes) {
  XXH3_128bits_update(&state_->xxh, bytes.data(), bytes.size());
}

Hash Hasher::finish() const { return converted(XXH3_128bits_digest(&state_->xxh)); }

}  // namespace rlreplay

// From here on the functions are inlined: rows of a tensor are often shorter than a call is worth.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace rlreplay {

Hash hash_of(std::span<const std::byte> bytes, uint64_t seed) {
  constexpr size_t kInlined = 240;  // XXH3 has paths of its own up to here
  if (bytes.size() > kInlined) return hash_of_many(bytes, seed);
  const XXH128_hash_t hash = XXH3_128bits_withSeed(bytes.data(), bytes.size(), seed);
  return {hash.high64, hash.low64};
}

uint64_t seed_of(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace rlreplay
