#include "src/base/digest.h"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cstring>
#include <sstream>

#include "src/base/error.h"
#include "src/base/golden.h"
#include "src/base/thread_pool.h"

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

std::vector<TokenRun> two_samples(int64_t rows) {
  const int64_t first = rows / 3;
  return {{kSamples[0], 0, 0, first}, {kSamples[1], 0, first, rows - first}};
}

Digest digest_of(const Case& c, const RowsView& view, ThreadPool& pool) {
  const auto cuts = segment_cuts(c.cols, c.segments);
  const auto runs = two_samples(c.rows);
  if (c.kind == "tokens") return digest_tokens(c.id(), view, runs, 0, cuts, pool);
  if (c.kind == "scalars") return digest_token_scalars(c.id(), view, runs, c.chunk, pool);
  return digest_part(c.id(), {view, 0, 0}, cuts, pool);
}

RowsView view_of(const Case& c, const std::vector<std::byte>& data) {
  return {c.dtype(), data.data(), c.rows, c.cols, c.cols};
}

// Columns [begin, end) of a view, moved to memory of their own with gaps between the rows.
struct Columns {
  Columns(const RowsView& all, int64_t begin, int64_t end) {
    const size_t size = size_of(all.dtype);
    view = {all.dtype, nullptr, all.rows, end - begin, end - begin + 3};
    bytes.resize(static_cast<size_t>(view.rows * view.stride) * size + 1);
    view.data = bytes.data() + 1;  // unaligned
    for (int64_t r = 0; r < all.rows; ++r) {
      std::memcpy(bytes.data() + 1 + static_cast<size_t>(r * view.stride) * size, all.at(r, begin),
                  static_cast<size_t>(view.cols) * size);
    }
  }
  std::vector<std::byte> bytes;
  RowsView view;
};

}  // namespace

TEST_CASE("digests are those of an implementation in another language") {
  REQUIRE(cases().size() == 12);
  for (int threads : {1, 3}) {
    ThreadPool pool(threads);
    for (const Case& c : cases()) {
      const auto data = c.data();
      CAPTURE(c.kind, c.name, c.dtype_name, threads);
      CHECK(digest_of(c, view_of(c, data), pool).hex() == c.hex);
    }
  }
}

TEST_CASE("a matrix cut by rows and by segments has the digest of the whole") {
  ThreadPool pool(2);
  for (const Case& c : cases()) {
    if (c.kind != "part" && c.kind != "vector") continue;
    const auto data = c.data();
    const RowsView all = view_of(c, data);
    const auto cuts = segment_cuts(c.cols, c.segments);
    std::vector<int64_t> borders = cuts;
    borders.insert(borders.begin(), 0);
    borders.push_back(c.cols);
    Digest sum;
    for (size_t i = borders.size() - 1; i-- > 0;) {
      const Columns part(all, borders[i], borders[i + 1]);
      for (const auto& [from, to] : {std::pair(c.rows / 2, c.rows), {int64_t{0}, c.rows / 2}}) {
        RowsView rows = part.view;
        rows.data = part.view.at(from, 0);
        rows.rows = to - from;
        sum += digest_part(c.id(), {rows, from, borders[i]}, cuts, pool);
      }
    }
    CAPTURE(c.name);
    CHECK(sum.hex() == c.hex);
  }
}

TEST_CASE("the order of a batch and its padding are not in a token tensor's digest") {
  ThreadPool pool(2);
  for (const Case& c : cases()) {
    if (c.kind != "tokens" && c.kind != "scalars") continue;
    const auto data = c.data();
    const RowsView all = view_of(c, data);
    const size_t row = static_cast<size_t>(c.cols) * size_of(c.dtype());
    const int64_t first = c.rows / 3, gap = 5;
    // The second sample, padding, the first sample.
    std::vector<std::byte> moved(data.size() + static_cast<size_t>(gap) * row, std::byte{0x77});
    std::memcpy(moved.data(), all.at(first, 0), static_cast<size_t>(c.rows - first) * row);
    std::memcpy(moved.data() + static_cast<size_t>(c.rows - first + gap) * row, all.at(0, 0),
                static_cast<size_t>(first) * row);
    const RowsView batch{c.dtype(), moved.data(), c.rows + gap, c.cols, c.cols};
    const TokenRun a{kSamples[0], 0, c.rows - first + gap, first};
    const int64_t half = c.kind == "scalars" ? c.chunk : 9;  // a sample may be cut between leaves
    TokenRun b{kSamples[1], 0, 0, std::min(half, c.rows - first)};
    const TokenRun rest{kSamples[1], b.count, b.count, c.rows - first - b.count};
    const TokenRun runs[] = {rest, a, b};
    const auto cuts = segment_cuts(c.cols, c.segments);
    const Digest digest = c.kind == "tokens"
                              ? digest_tokens(c.id(), batch, runs, 0, cuts, pool)
                              : digest_token_scalars(c.id(), batch, runs, c.chunk, pool);
    CAPTURE(c.name);
    CHECK(digest.hex() == c.hex);
  }
}

TEST_CASE("what a digest must see: a bit, a swap of rows, of columns, the name, the dtype, a dim") {
  ThreadPool pool(1);
  const std::vector<float> data{1, 2, 3, 4, 5, 6, 7, 8};
  const int64_t dims[] = {2, 4}, cut[] = {2};
  const auto digest = [&](std::vector<float> values, std::string_view name = "w") {
    return digest_part({name, DType::kF32, dims}, {rows_view(values.data(), 2, 4)}, cut, pool);
  };
  const Digest base = digest(data);
  CHECK(digest(data) == base);
  CHECK(digest({1, 2, 3, 4, 5, 6, 7, std::bit_cast<float>(0x41000001u)}) != base);
  CHECK(digest({5, 6, 7, 8, 1, 2, 3, 4}) != base);
  CHECK(digest({3, 4, 1, 2, 5, 6, 7, 8}) != base);
  CHECK(digest(data, "v") != base);
  const int64_t flat[] = {8};
  CHECK(digest_part({"w", DType::kF32, flat}, {rows_view(data.data(), 1, 8)}, {}, pool) != base);
  const auto* bits = reinterpret_cast<const int32_t*>(data.data());
  CHECK(digest_part({"w", DType::kI32, dims}, {rows_view(bits, 2, 4)}, cut, pool) != base);
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

TEST_CASE("parts that are not whole blocks are refused") {
  ThreadPool pool(1);
  const std::vector<float> data(8);
  const int64_t dims[] = {2, 4}, cut[] = {3};
  const TensorId id("w", DType::kF32, dims);
  const auto refused = [&](Part part, Cuts cuts) {
    CHECK_THROWS_AS(digest_part(id, part, cuts, pool), Error);
  };
  refused({rows_view(data.data(), 2, 2, 4)}, cut);
  refused({rows_view(data.data(), 2, 2, 4), 0, 2}, cut);
  refused({rows_view(data.data(), 2, 2, 4)}, {});
  refused({rows_view(reinterpret_cast<const int32_t*>(data.data()), 2, 4)}, cut);
  const TokenRun inside[] = {{1, 3, 0, 2}}, outside[] = {{1, 0, 7, 2}};
  const TensorId scalars("s", DType::kF32, {});
  const RowsView column = rows_view(data.data(), 8, 1);
  CHECK_THROWS_AS(digest_token_scalars(scalars, column, inside, 4, pool), Error);
  CHECK_THROWS_AS(digest_token_scalars(scalars, column, outside, 4, pool), Error);
}
