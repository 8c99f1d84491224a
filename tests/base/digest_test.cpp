#include "src/base/digest.h"

#include <bit>
#include <catch2/catch.hpp>
#include <sstream>

#include "src/base/golden_file.h"
#include "tests/base/digest_oracle.h"

using namespace rlreplay;

namespace {

constexpr uint64_t kSamples[] = {7, (uint64_t{1} << 56) + 3};

std::vector<std::byte> contents(size_t count) {
  uint64_t state = count;
  std::vector<std::byte> out(count);
  for (auto& byte : out) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<std::byte>(state >> 56);
  }
  return out;
}

// An entry of tests/golden/digest.txt.
struct Case {
  std::string kind, name, dtype_name, hex;
  int64_t rows, cols, segments, chunk;

  DType dtype() const { return dtype_from_string(dtype_name).value(); }
  TensorId id() const {
    std::vector<int64_t> dims;
    if (kind == "part") dims.push_back(rows);
    if (kind != "scalars") dims.push_back(cols);
    return {name, dtype(), dims};
  }
  std::vector<std::byte> data() const {
    return contents(static_cast<size_t>(rows * cols) * size_of(dtype()));
  }
};

std::vector<Case> cases() {
  std::vector<Case> out;
  for (const auto& [key, hex] : read_golden(RLREPLAY_GOLDEN "/digest.txt").entries) {
    Case& c = out.emplace_back();
    std::istringstream words(key);
    words >> c.kind >> c.name >> c.dtype_name >> c.rows >> c.cols >> c.segments >> c.chunk;
    c.hex = hex;
  }
  return out;
}

/// Two samples, one behind the other.
std::vector<std::vector<uint64_t>> tokens(int64_t rows) {
  const auto first = static_cast<uint64_t>(rows / 3);
  std::vector<std::vector<uint64_t>> out;
  for (uint64_t i = 0; i < static_cast<uint64_t>(rows); ++i) {
    out.push_back({kSamples[i < first ? 0 : 1], i < first ? i : i - first});
  }
  return out;
}

Digest digest_of(const Case& c, const std::vector<std::byte>& data) {
  const RowsView view{c.dtype(), data.data(), c.rows, c.cols, c.cols};
  const auto cuts = segment_cuts(c.cols, c.segments);
  if (c.kind == "tokens") {
    return test::digest_of_rows(c.id(), view, tokens(c.rows), cuts, !cuts.empty());
  }
  if (c.kind == "scalars") {
    return test::digest_of_leaves(c.id(), view, tokens(c.rows), static_cast<uint64_t>(c.chunk));
  }
  std::vector<std::vector<uint64_t>> at;
  for (int64_t row = 0; row < c.rows; ++row) at.push_back({static_cast<uint64_t>(row)});
  return test::digest_of_rows(c.id(), view, at, cuts, true);
}

}  // namespace

TEST_CASE("digests are those of an implementation in another language") {
  REQUIRE(cases().size() == 12);
  for (const Case& c : cases()) {
    CAPTURE(c.kind, c.name, c.dtype_name);
    CHECK(digest_of(c, c.data()).hex() == c.hex);
  }
}

TEST_CASE("what a digest must see: a bit, each coordinate, the name, the dtype, a dim") {
  const std::vector<float> data{1, 2, 3, 4};
  const int64_t dims[] = {2, 4}, flat[] = {8};
  const TensorId id("w", DType::kF32, dims);
  const auto digest = [&](const TensorId& of, const std::vector<uint64_t>& at,
                          const std::vector<float>& values) {
    return digest_block(of, at, std::as_bytes(std::span(values)));
  };
  const Digest base = digest(id, {1, 2}, data);
  CHECK(digest(id, {1, 2}, data) == base);
  CHECK(digest(id, {1, 2}, {1, 2, 3, std::bit_cast<float>(0x40800001u)}) != base);
  CHECK(digest(id, {0, 2}, data) != base);
  CHECK(digest(id, {1, 0}, data) != base);
  CHECK(digest(id, {2, 1}, data) != base);
  CHECK(digest(id, {1}, data) != base);
  CHECK(digest(TensorId("v", DType::kF32, dims), {1, 2}, data) != base);
  CHECK(digest(TensorId("w", DType::kI32, dims), {1, 2}, data) != base);
  CHECK(digest(TensorId("w", DType::kF32, flat), {1, 2}, data) != base);
}

TEST_CASE("digests are added with a carry and printed with all their zeros") {
  Digest sum{0, ~uint64_t{0}};
  sum += Digest{1, 1};
  CHECK(sum == Digest{2, 0});
  sum += Digest{~uint64_t{0}, 5};
  CHECK(sum.hex() == "00000000000000010000000000000005");
}

TEST_CASE("segments that are empty cut nothing") {
  CHECK(segment_cuts(163, 8) == std::vector<int64_t>{20, 40, 61, 81, 101, 122, 142});
  CHECK(segment_cuts(3, 8) == std::vector<int64_t>{1, 2});
  CHECK(segment_cuts(5, 1).empty());
}
