#include "src/base/hash.h"

#include <catch2/catch.hpp>
#include <string>

#include "src/base/dtype.h"

using namespace rlreplay;

TEST_CASE("the hash is XXH3-128 with seed 0, its high half first") {
  // What xxHash itself gives for no bytes.
  CHECK(hash_of("").hex() == "99aa06d3014798d86001c324468d497f");
  CHECK(hash_of("rlreplay\n") == hash_of(std::string("rlreplay\n")));
}

TEST_CASE("the hash of pieces is the hash of the whole") {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += static_cast<char>(i * 7);
  // Around the 256 bytes that a hash in pieces keeps until more come.
  for (const size_t cut : {0, 1, 255, 256, 257, 1024, 4999, 5000}) {
    Hasher hasher;
    const std::span<const char> all(text);
    hasher.update(std::as_bytes(all.first(cut)));
    hasher.update(std::as_bytes(all.subspan(cut)));
    CHECK(hasher.finish() == hash_of(text));
  }
}

TEST_CASE("a hash is read back from its own form only") {
  const Hash hash = hash_of("a");
  CHECK(Hash::from_hex(hash.hex()) == hash);
  std::string upper = hash.hex();
  for (char& c : upper) c = static_cast<char>(std::toupper(c));
  CHECK_FALSE(Hash::from_hex(upper));
  CHECK_FALSE(Hash::from_hex(hash.hex().substr(1)));
  CHECK_FALSE(Hash::from_hex(hash.hex() + "0"));
  CHECK_FALSE(Hash::from_hex(" 9aa06d3014798d86001c324468d497f"));
}

TEST_CASE("dtypes are known by name") {
  for (const DType dtype : kAllDTypes) CHECK(dtype_from_string(to_string(dtype)) == dtype);
  CHECK_FALSE(dtype_from_string("float32"));
  CHECK(size_of(DType::kBF16) == 2);
  CHECK(size_of(DType::kI64) == 8);
}
