#include <algorithm>
#include <catch2/catch.hpp>

#include "format/codec.h"
#include "format/rule.h"
#include "tests/format/support.h"

using namespace rlreplay;
using namespace rlreplay::format;
using namespace rlreplay::format::test;

namespace {

EncodedUnit encode(const std::vector<Dataset>& datasets, int threads, const Packing& packing = {}) {
  ThreadPool pool(threads);
  UnitWriter writer("train/0-0/rank0.h5", pool, packing);
  for (const Dataset& d : datasets) writer.add(d);
  return writer.finish();
}

bool equal(std::span<const std::byte> a, std::span<const std::byte> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

/// Of no element, of one, within a chunk of the test and over several, and of the most dimensions.
std::vector<std::vector<uint64_t>> shapes() {
  return {{0}, {3, 0, 2}, {1}, {7}, {1025}, {33, 65}, {2, 3, 5, 7, 1, 1, 2, 2}, {300'001}};
}

}  // namespace

TEST_CASE("every dtype and shape comes back, and its description with it") {
  Random random(1);
  std::vector<Dataset> all;
  for (const DType dtype : kAllDTypes) {
    int i = 0;
    for (const auto& shape : shapes()) {
      all.push_back(dataset("0-0/" + std::string(to_string(dtype)) + "/s" + std::to_string(i++),
                            dtype, shape, random));
    }
  }
  all.back().attributes["columns"] = std::string("loss\ngrad_norm");
  all.back().attributes["start"] = std::vector<uint64_t>{4, 0};
  Packing packing;
  packing.chunk_bytes = 256 << 10;
  const EncodedUnit unit = encode(all, 2, packing);
  CHECK(unit.record.groups == std::vector<std::string>{"0-0"});

  ThreadPool pool(2);
  const UnitReader reader = UnitReader::open(copy_of(unit.image.bytes()), unit.record, pool);
  REQUIRE(reader.datasets().size() == all.size());
  for (const Dataset& d : all) {
    CAPTURE(d.path);
    const StoredDataset* stored = reader.find(d.path);
    REQUIRE(stored != nullptr);
    CHECK(stored->dtype == d.dtype);
    CHECK(stored->shape == d.shape);
    CHECK(stored->attributes == d.attributes);
    CHECK(stored->hash == hash_of(d.bytes));
    std::vector<std::byte> out(d.bytes.size());
    reader.read(*stored, out);
    CHECK(equal(out, d.bytes));
  }
}

TEST_CASE("several datasets are read at once, and a wrong one is named") {
  Random random(12);
  const std::vector<Dataset> all = {dataset("0/empty", DType::kF32, {0}, random),
                                    dataset("0/few", DType::kI64, {3}, random),
                                    dataset("0/tokens", DType::kI32, {700'000}, random),
                                    dataset("0/w", DType::kBF16, {900'001}, random)};
  const EncodedUnit unit = encode(all, 2);
  ThreadPool pool(3);
  const UnitReader reader = UnitReader::open(copy_of(unit.image.bytes()), unit.record, pool);
  std::vector<std::vector<std::byte>> out;
  std::vector<UnitReader::Read> reads;
  for (const Dataset& d : all) out.emplace_back(d.bytes.size());
  // In another order than they are stored in.
  for (size_t i = all.size(); i-- > 0;) reads.push_back({reader.find(all[i].path), out[i]});
  reader.read(reads);
  for (size_t i = 0; i < all.size(); ++i) CHECK(equal(out[i], all[i].bytes));

  std::vector<std::byte> short_one(3);
  reads[1].out = short_one;
  CHECK_THROWS_AS(reader.read(reads), Error);
  reader.read(std::span<const UnitReader::Read>());
}

TEST_CASE("a wrong checksum of a frame: only a reader who compares it minds") {
  Random random(13);
  Packing packing;
  packing.chunk_bytes = 64 << 10;
  const Dataset d = dataset("0/w", DType::kU8, {64 << 10}, random);
  const EncodedUnit unit = encode({d}, 1, packing);
  std::vector<std::byte> frame(frame_bound(d.bytes.size()));
  frame.resize(ChunkEncoder(packing.level).encode(d.bytes, frame));
  Buffer<std::byte> image = copy_of(unit.image.bytes());
  // The frame is found by its bytes: a unit holds each chunk as the encoder gives it.
  std::byte* end = image.data() + image.size();
  std::byte* place = std::search(image.data(), end, frame.begin(), frame.end());
  REQUIRE(place != end);
  place[frame.size() - 1] ^= std::byte{1};
  UnitRecord record = unit.record;
  record.hash = hash_of(std::span<const std::byte>(image.data(), image.size()));

  ThreadPool pool(1);
  std::vector<std::byte> out(d.bytes.size());
  const auto rule_of = [&](bool frame_checksums, auto read) {
    const UnitReader reader =
        UnitReader::open(copy_of({image.data(), image.size()}), record, pool, {}, frame_checksums);
    try {
      read(reader);
    } catch (const FormatError& e) {
      return to_string(e.rule());
    }
    return to_string(Rule::kUnlisted);
  };
  const auto whole = [&](const UnitReader& r) { r.read(r.datasets()[0], out); };
  CHECK(rule_of(true, whole) == to_string(Rule::kFrame));
  CHECK(rule_of(false, whole) == to_string(Rule::kUnlisted));
  CHECK(equal(out, d.bytes));
}

TEST_CASE("equal content gives equal files, whatever the number of threads") {
  Random random(3);
  const std::vector<Dataset> all = {dataset("0-0/w", DType::kF32, {1'000'003}, random),
                                    dataset("0-0/b", DType::kBF16, {5}, random),
                                    dataset("0-1/w", DType::kU8, {2'000'000}, random)};
  const EncodedUnit one = encode(all, 1), two = encode(all, 3);
  CHECK(equal(one.image.bytes(), two.image.bytes()));
  CHECK(one.record == two.record);
  CHECK(one.record.groups == std::vector<std::string>{"0-0", "0-1"});

  Packing packing;
  packing.chunk_bytes = 128 << 10;
  packing.level = 3;  // another file: its content must be called the same
  const EncodedUnit other = encode(all, 2, packing);
  CHECK(other.record.hash != one.record.hash);
  CHECK(other.record.content == one.record.content);
}

TEST_CASE("a difference is smaller, comes back with its base, and fails with another") {
  Random random(4);
  Dataset old = dataset("0-0/w", DType::kBF16, {400'000}, random);
  std::vector<std::byte> changed(old.bytes.begin(), old.bytes.end());
  for (int i = 0; i < 1000; ++i) changed[random.below(changed.size())] ^= std::byte{1};
  Dataset next = dataset_of("0-0/w", DType::kBF16, {400'000}, changed);
  const EncodedUnit plain = encode({next}, 2);
  next.base = Base{"weights/0-0/rank0.h5", hash_of(old.bytes)};
  next.base_bytes = old.bytes;
  const EncodedUnit unit = encode({next}, 2);
  CHECK(unit.record.content == plain.record.content);
  CHECK(unit.record.size * 10 < plain.record.size);  // of 800 000 bytes at most 1000 differ

  ThreadPool pool(2);
  const UnitReader reader = UnitReader::open(copy_of(unit.image.bytes()), unit.record, pool);
  const StoredDataset& stored = reader.datasets()[0];
  REQUIRE(stored.base);
  CHECK(stored.base->hash == hash_of(old.bytes));
  std::vector<std::byte> out(stored.bytes);
  reader.read(stored, out, old.bytes);
  CHECK(equal(out, changed));
  try {
    reader.read(stored, out, changed);
    FAIL("a wrong base was accepted");
  } catch (const FormatError& e) {
    CHECK(e.rule() == Rule::kDatasetHash);
  }
}

TEST_CASE("misuse of the writer is refused") {
  Random random(5);
  ThreadPool pool(1);
  for (const char* path : {"", "train", "train/a", "/train/a.h5", "train/../a.h5", "train/.h5",
                           "train/a/b/c.h5", "other/a.h5", "train//a.h5", "x-/.a.h5"}) {
    CAPTURE(path);
    CHECK_THROWS_AS(UnitWriter(path, pool), Error);
  }
  UnitWriter writer("x-vendor/a.h5", pool);
  writer.add(dataset("g/a", DType::kU8, {3}, random));
  for (const char* path : {"g/a", "a", "", "/a", "g/", "g/../a", "a/b/c/d/e", "g/a b"}) {
    CAPTURE(path);
    CHECK_THROWS_AS(writer.add(dataset(path, DType::kU8, {3}, random)), Error);
  }
  Dataset wrong = dataset("g/b", DType::kU8, {3}, random);
  wrong.shape = {4};
  CHECK_THROWS_AS(writer.add(wrong), Error);
  wrong.shape = {};
  CHECK_THROWS_AS(writer.add(wrong), Error);
  wrong.shape = {3};
  wrong.attributes["hash"] = std::string("0");
  CHECK_THROWS_AS(writer.add(wrong), Error);
}

TEST_CASE("names of any bytes become link names") {
  CHECK(link_name("model.layers.0.q_proj-1") == "model.layers.0.q_proj-1");
  CHECK(link_name("a/b c%\xff") == "a%2Fb%20c%25%FF");
}

TEST_CASE("paths of units, and the ranks in them") {
  const std::string longest(100, 'n');
  CHECK(sound_unit_path("rollout/" + longest + ".h5"));
  CHECK(sound_unit_path("train/" + longest + "/" + longest + ".h5"));
  CHECK_FALSE(sound_unit_path("rollout/" + longest + "n.h5"));
  CHECK_FALSE(sound_unit_path("rollout/.h5"));
  CHECK_FALSE(sound_unit_path("rollout/0.h5.tmp"));
  CHECK(rank_of("train/0-0/rank0.h5") == 0);
  CHECK(rank_of("train/0-0/rank17.h5") == 17);
  CHECK_FALSE(is_part("train/0-0/rank17.h5"));
  CHECK(rank_of("weights/0-0/rank17-part0.h5") == 17);
  CHECK(is_part("weights/0-0/rank17-part0.h5"));
  for (const char* none : {"rank", "rank-3", "rank007", "rank+1", "rank1x", "rank 1", "Rank1",
                           "rank99999999999999999999", "1", "rank1-part", "rank1-part01",
                           "rank-part1", "rank1-part1-part2", "rank1-parts2"}) {
    CAPTURE(none);
    CHECK(rank_of("train/0-0/" + std::string(none) + ".h5") == 0);
  }
}

TEST_CASE("one flipped byte anywhere in a unit is found by its hash") {
  Random random(6);
  const EncodedUnit unit = encode({dataset("0/tokens", DType::kI32, {9000}, random)}, 1);
  ThreadPool pool(1);
  for (int i = 0; i < 200; ++i) {
    Buffer<std::byte> bytes = copy_of(unit.image.bytes());
    bytes[random.below(bytes.size())] ^= static_cast<std::byte>(1 + random.below(255));
    try {
      UnitReader::open(std::move(bytes), unit.record, pool);
      FAIL("a flipped byte was accepted");
    } catch (const FormatError& e) {
      CHECK(e.rule() == Rule::kUnitHash);
    }
  }
}
