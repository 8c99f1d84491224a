#pragma once

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

/// What the surroundings say to the tests; scripts/test sets it.
namespace rlreplay::test {

/// RLREPLAY_SEED, for tests that draw a sample; 1 where it is not set. scripts/test prints it.
inline uint64_t seed() {
  const char* text = std::getenv("RLREPLAY_SEED");
  return text ? std::strtoull(text, nullptr, 10) : 1;
}

/// Whether sweeps run whole (RLREPLAY_FULL=1) and not on a sample.
inline bool full() {
  const char* text = std::getenv("RLREPLAY_FULL");
  return text && std::string(text) == "1";
}

/// A folder of reference material (RLREPLAY_REFERENCE); tests that need it are skipped without.
inline std::optional<std::string> reference_folder() {
  const char* text = std::getenv("RLREPLAY_REFERENCE");
  return text && *text ? std::optional<std::string>(text) : std::nullopt;
}

}  // namespace rlreplay::test
