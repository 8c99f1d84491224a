#include <algorithm>
#include <catch2/catch.hpp>
#include <ctime>
#include <iostream>
#include <set>

#include "format/checked_image.h"
#include "format/faults.h"
#include "format/hdf5/lookup3.h"
#include "format/rule.h"
#include "tests/format/hdf5_blocks.h"
#include "tests/format/support.h"

/// Metadata of HDF5 that someone chose: checksums and hashes fit, and what they protect does not.
using namespace rlreplay;
using namespace rlreplay::format;
using namespace rlreplay::format::test;

namespace {

constexpr char kPath[] = "rollout/0.h5";

struct Sound {
  std::string bytes;
  std::vector<Block> blocks;
};

template <class Fill>
Sound unit(Fill&& fill) {
  ThreadPool pool(1);
  Packing packing;
  packing.chunk_bytes = 64 << 10;
  UnitWriter writer(kPath, pool, packing);
  fill(writer);
  const EncodedUnit made = writer.finish();
  const auto* text = reinterpret_cast<const char*>(made.image.bytes().data());
  Sound out{{text, made.image.bytes().size()}, {}};
  out.blocks = find_blocks(out.bytes);
  return out;
}

Dataset small(const std::string& path, Random& random) {
  return dataset(path, DType::kI32, {3}, random);
}

/// Units whose metadata has all the forms that the writer gives it.
std::vector<Sound> sound_units() {
  Random random(31);
  std::vector<Sound> out;
  out.push_back(unit([&](UnitWriter& w) {  // links in headers
    w.add(small("0/tokens", random));
    w.add(dataset("0/log_probs", DType::kF32, {40'000}, random));
    w.add(dataset("1/none", DType::kBF16, {0, 3}, random));
  }));
  out.push_back(unit([&](UnitWriter& w) {  // links in heaps, with rows of blocks
    for (int i = 0; i < 120; ++i) w.add(small("0/events/n" + std::to_string(i), random));
    for (int i = 0; i < 12; ++i) w.add(small(std::to_string(i + 1) + "/x", random));
  }));
  out.push_back(unit([&](UnitWriter& w) {  // attributes in heaps, and too large for them
    for (int d = 0; d < 2; ++d) {
      Dataset tensor = small("0/d" + std::to_string(d), random);
      for (int i = 0; i < 14; ++i)
        tensor.attributes["a" + std::to_string(i)] = std::string(i + 1, 'x');
      tensor.attributes["columns"] = std::string(5000, 'y');
      tensor.attributes["start"] = std::vector<uint64_t>{1, 2, 3};
      w.add(tensor);
    }
  }));
  out.push_back(unit([&](UnitWriter& w) {  // chunks: an index with pages, one without, one alone
    std::vector<uint8_t> zeros(1100 * (64 << 10));
    w.add(dataset_of("0/many", DType::kU8, {zeros.size()}, zeros));
    w.add(dataset("0/few", DType::kF32, {40'000}, random));
    w.add(dataset("0/one", DType::kF32, {3'000}, random));
  }));
  return out;
}

uint64_t likely_number(Random& random, const Sound& unit) {
  const uint64_t size = unit.bytes.size();
  const uint64_t some[] = {
      0, 1, size, size - 1, UINT64_MAX, UINT64_MAX - 1, uint64_t{1} << 63, 0x10000, 0xff, size / 2};
  const uint64_t pick = random.below(uint64_t{16});
  return pick < std::size(some) ? some[pick] : unit.blocks[random.below(unit.blocks.size())].begin;
}

void mutate(Random& random, const Sound& unit, std::string& file) {
  const Block& block = unit.blocks[random.below(unit.blocks.size())];
  const size_t at = block.begin + random.below(block.size);
  const size_t room = block.begin + block.size - at;
  switch (random.below(6)) {
    case 0:
      file[at] = static_cast<char>(random.bits());
      break;
    case 1:
      file[at] = static_cast<char>(file[at] + (random.below(2) == 0 ? 1 : -1));
      break;
    case 2:
      file[at] ^= static_cast<char>(1 << random.below(8));
      break;
    case 3: {  // a piece of another structure
      const Block& other = unit.blocks[random.below(unit.blocks.size())];
      const size_t size = std::min({room, other.size, size_t{1} + random.below(size_t{40})});
      file.replace(at, size, unit.bytes, other.begin, size);
      break;
    }
    default: {  // an address, a size, a count
      const uint64_t value = likely_number(random, unit);
      const size_t sizes[] = {1, 2, 4, 8};
      std::memcpy(&file[at], &value, std::min(room, sizes[random.below(size_t{4})]));
    }
  }
}

/// What the record of the unit must say: an adversary would make it fit.
UnitRecord record_of(const std::string& bytes, const h5::Contents& contents) {
  UnitRecord record{kPath, bytes.size(), 0, hash_of(bytes), {}, {}};
  std::vector<StoredDataset> all;
  std::set<std::string> groups;
  for (const h5::DatasetEntry& entry : contents.datasets) {
    groups.insert(entry.path.substr(0, entry.path.find('/')));
    StoredDataset d;
    d.path = entry.path;
    d.attributes = entry.attributes;
    const auto text = [&](const char* name) {
      const auto* value = std::get_if<std::string>(&d.attributes[name]);
      return value == nullptr ? std::string() : *value;
    };
    d.dtype = dtype_from_string(text("dtype")).value_or(DType::kU8);
    d.hash = Hash::from_hex(text("hash")).value_or(Hash{});
    if (const auto* shape = std::get_if<std::vector<uint64_t>>(&d.attributes["shape"])) {
      d.shape = *shape;
    }
    for (const char* own : {"dtype", "shape", "hash", "encoding", "base_unit", "base_hash"}) {
      d.attributes.erase(own);
    }
    record.logical += entry.layout.bytes();
    all.push_back(std::move(d));
  }
  record.content = content_of(std::move(all));
  record.groups.assign(groups.begin(), groups.end());
  return record;
}

/// Opens a unit and reads what is in it. Errors: FormatError.
void open_and_read(const std::string& bytes) {
  const auto copy = [&] { return copy_of(std::as_bytes(std::span<const char>(bytes))); };
  Faults faults(kPath);
  const CheckedImage image(copy(), bytes.size(), hash_of(bytes), kPath);
  const h5::Contents contents = h5::contents_of(image, {}, kPath, faults);
  faults.raise();
  ThreadPool pool(1);
  const UnitReader reader = UnitReader::open(copy(), record_of(bytes, contents), pool);
  for (const StoredDataset& d : reader.datasets()) {
    constexpr uint64_t kMost = uint64_t{128} << 20;
    if (d.bytes > kMost || d.base) continue;
    std::vector<std::byte> out(d.bytes);
    reader.read(d, out);
  }
}

}  // namespace

TEST_CASE("lookup3 has the values of its author's text") {
  const auto of = [](std::string_view text) {
    return h5::lookup3(std::as_bytes(std::span(text.data(), text.size())));
  };
  CHECK(of("") == 0xdeadbeef);
  CHECK(of("Four score and seven years ago") == 0x17770551);
}

TEST_CASE("metadata with repaired checksums is refused by a rule or does no harm") {
  const uint64_t trials = full() ? 3'000 : 300;
  const std::vector<Sound> units = sound_units();
  for (const Sound& unit : units) {
    std::string same = unit.bytes;
    repair(same, unit.blocks);
    CHECK(same == unit.bytes);
    CHECK_NOTHROW(open_and_read(same));
  }
  std::set<std::string_view> kinds;
  for (const Sound& unit : units) {
    for (const Block& b : unit.blocks)
      kinds.insert(std::string_view(unit.bytes).substr(b.begin, 4));
  }
  for (const char* kind :
       {"OHDR", "OCHK", "BTHD", "BTIN", "BTLF", "FRHP", "FHDB", "FHIB", "FAHD", "FADB"}) {
    CAPTURE(kind);
    CHECK(kinds.contains(kind));
  }
  uint64_t refused = 0;
  double slowest = 0;
  for (uint64_t trial = 0; trial < trials; ++trial) {
    Random random(20260102 + trial);
    const Sound& unit = units[trial % units.size()];
    std::string file = unit.bytes;
    for (uint64_t i = 0, n = 1 + random.below(uint64_t{3}); i < n; ++i) mutate(random, unit, file);
    repair(file, unit.blocks);
    CAPTURE(trial);
    const std::clock_t begin = std::clock();
    try {
      open_and_read(file);
    } catch (const FormatError& e) {
      CHECK(e.rule() > Rule::kUnitHash);
      ++refused;
    }
    slowest = std::max(slowest, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  std::cout << refused << " of " << trials << " refused, the slowest took " << slowest << " s\n";
  CHECK(refused > trials / 2);
  CHECK(slowest < 2);  // of a processor: what reading may take
}

TEST_CASE("structures that are used twice are refused") {
  // The second dataset's header is the first one's: an object has two names.
  Random random(32);
  const Sound unit = ::unit([&](UnitWriter& w) {
    w.add(small("0/a", random));
    w.add(small("0/b", random));
  });
  std::string file = unit.bytes;
  const size_t a = file.find(
                   "\x01"
                   "a",
                   48),
               b = file.find(
                   "\x01"
                   "b",
                   48);
  REQUIRE(std::max(a, b) < file.size());
  file.replace(b + 2, 8, file, a + 2, 8);
  repair(file, unit.blocks);
  try {
    open_and_read(file);
    FAIL("not refused");
  } catch (const FormatError& e) {
    CHECK(e.rule() == Rule::kObject);
  }
}

namespace {

/// Where the bodies of an object header's messages of one type begin.
std::vector<size_t> messages(const std::string& file, const Block& header, uint8_t type) {
  const auto byte = [&](size_t at) { return static_cast<uint8_t>(file[at]); };
  const uint8_t flags = byte(header.begin + 5);
  std::vector<size_t> found;
  size_t at = header.begin + 6 + ((flags & 0x20) != 0 ? 16 : 0) + ((flags & 0x10) != 0 ? 4 : 0) +
              (size_t{1} << (flags & 3));
  while (at + 4 <= header.checksum) {
    const size_t body = at + ((flags & 0x04) != 0 ? 6 : 4);
    if (byte(at) == type) found.push_back(body);
    at = body + byte(at + 1) + 256 * byte(at + 2);
  }
  return found;
}

/// Places of all structures with a signature; of object headers, of their messages of a type.
std::vector<size_t> places(const Sound& unit, std::string_view signature, uint8_t type = 0) {
  std::vector<size_t> found;
  for (const Block& block : unit.blocks) {
    if (std::string_view(unit.bytes).substr(block.begin, 4) != signature) continue;
    if (type == 0) {
      found.push_back(block.begin);
    } else {
      std::ranges::copy(messages(unit.bytes, block, type), std::back_inserter(found));
    }
  }
  return found;
}

void check_refused(const Sound& unit, std::string file) {
  repair(file, unit.blocks);
  try {
    open_and_read(file);
    FAIL("not refused");
  } catch (const FormatError& e) {
    CHECK(e.rule() == Rule::kContainer);
  }
}

}  // namespace

TEST_CASE("forms that libhdf5 does not read are refused") {
  struct Change {
    const char* what;
    size_t unit;
    const char* signature;
    uint8_t message;
    ptrdiff_t at;  // from the structure, or the message's body: its header lies before
    size_t size;
    uint64_t value;
  };
  constexpr ptrdiff_t kType = -4, kFlags = -1;  // of a message
  const std::vector<Sound> units = sound_units();
  const uint64_t here = 48;  // an address of something else
  const Change changes[] = {
      {"header flags", 0, "OHDR", 0, 5, 1, 0x40},
      {"message that was unknown", 0, "OHDR", 0x02, kFlags, 1, 0x20},
      {"link info flags", 0, "OHDR", 0x02, 1, 1, 0x08},
      {"links' index without a heap", 0, "OHDR", 0x02, 10, 8, here},
      {"attribute info flags", 0, "OHDR", 0x15, 1, 1, 0x20},
      {"attributes' index without a heap", 0, "OHDR", 0x15, 10, 8, here},
      {"group info flags", 0, "OHDR", 0x0a, 1, 1, 0x10},
      {"link flags", 0, "OHDR", 0x06, 1, 1, 0x20},
      {"fill value's version", 0, "OHDR", 0x05, 0, 1, 0},
      {"fill value's version", 0, "OHDR", 0x05, 0, 1, 4},
      {"fill value's flags", 0, "OHDR", 0x05, 1, 1, 0x8f},
      {"fill value without its size", 0, "OHDR", 0x05, 1, 1, 0x20},
      {"fill value that is undefined and there", 0, "OHDR", 0x05, 1, 1, 0x30},
      {"tree of huge objects", 1, "FRHP", 0, 22, 8, here},
      {"free space", 1, "FRHP", 0, 38, 8, here},
      {"managed space", 1, "FRHP", 0, 46, 8, 1},
      {"heap flags", 1, "FRHP", 0, 9, 1, 0x03},
      {"heap flags", 2, "FRHP", 0, 9, 1, 0x06},
      {"free space of a heap", 1, "FRHP", 0, 30, 8, 1},
      {"free space of a heap", 2, "FRHP", 0, 30, 8, UINT64_MAX},
      {"allocated space", 1, "FRHP", 0, 54, 8, 1},
      {"count of managed objects", 1, "FRHP", 0, 70, 8, 1},
      {"size of huge objects", 2, "FRHP", 0, 78, 8, 1},
      {"count of huge objects", 2, "FRHP", 0, 86, 8, 7},
      {"size of tiny objects", 1, "FRHP", 0, 94, 8, 1},
      {"count of tiny objects", 2, "FRHP", 0, 102, 8, 1},
      {"a link's index that can be shared", 0, "OHDR", 0x02, kFlags, 1, 0x40},
      {"a layout that can be shared", 0, "OHDR", 0x08, kFlags, 1, 0x40},
      {"nodes beyond the file", 1, "BTHD", 0, 6, 4, 0xff00},
      {"size of a heap's room", 2, "FSHD", 0, 6, 8, uint64_t{1} << 40},
      {"sections of a heap's room", 2, "FSHD", 0, 14, 8, 9},
      {"classes of a heap's room", 2, "FSHD", 0, 38, 2, 5},
      {"addresses of a heap's room", 2, "FSHD", 0, 44, 2, 60},
      {"sections that need more than their block", 2, "FSHD", 0, 70, 8, 0},
      {"sections beyond the file", 2, "FSHD", 0, 70, 8, uint64_t{1} << 40},
      {"the sections' version", 2, "FSSE", 0, 4, 1, 248},
      {"the sections' header", 2, "FSSE", 0, 5, 8, 0},
      {"the sections' number", 2, "FSSE", 0, 13, 1, 255},
      {"the sections' number", 2, "FSSE", 0, 13, 1, 0},
      {"nodes over something else", 2, "BTHD", 0, 6, 4, 0x4000},
      {"a dataset's message in a group", 0, "OHDR", 0x0a, kType, 1, 0x05},
      {"a reference count without its number", 0, "OHDR", 0x0a, kType, 1, 0x16},
      {"a reference count of version 3", 0, "OHDR", 0x0c, kType, 1, 0x16},
      {"a dataspace's flags", 0, "OHDR", 0x01, 2, 1, 0x03},
      {"a dataspace's flags", 0, "OHDR", 0x01, 2, 1, 0x80},
      {"a group's message in a dataset", 0, "OHDR", 0x05, kType, 1, 0x0a},
  };
  for (const Change& change : changes) {
    const Sound& unit = units[change.unit];
    CAPTURE(change.what, change.value);
    const std::vector<size_t> found = places(unit, change.signature, change.message);
    REQUIRE(!found.empty());
    for (const size_t place : found) {
      std::string file = unit.bytes;
      std::memcpy(&file[place + static_cast<size_t>(change.at)], &change.value, change.size);
      check_refused(unit, file);
    }
  }
}

TEST_CASE("flags of a filter that are not defined are refused") {
  const Sound unit = sound_units()[3];
  const std::vector<size_t> filters = places(unit, "OHDR", 0x0b);
  REQUIRE(!filters.empty());
  for (const size_t place : filters) {
    const bool shuffles = unit.bytes[place + 2] == 2;
    const size_t zstd = place + (shuffles ? 12 : 2);  // id, length of a name, flags
    for (const size_t flags : shuffles ? std::vector{place + 4, zstd + 4} : std::vector{zstd + 4}) {
      for (const uint16_t value : {0x21, 0xff01, 2}) {
        CAPTURE(flags - place, value);
        std::string file = unit.bytes;
        std::memcpy(&file[flags], &value, sizeof value);
        check_refused(unit, file);
      }
    }
  }
}

TEST_CASE("a gap in a header that has an empty message is refused") {
  constexpr uint8_t kGroupInfo = 0x0a, kFillValue = 0x05;  // nothing needs these to be there
  const std::vector<Sound> units = sound_units();
  size_t changed = 0;
  for (const Sound& unit : units) {
    for (const Block& block : unit.blocks) {
      const auto byte = [&](size_t at) {
        return static_cast<uint8_t>(unit.bytes[block.begin + at]);
      };
      if (std::string_view(unit.bytes).substr(block.begin, 4) != "OHDR") continue;
      const uint8_t flags = byte(5);
      const size_t head = (flags & 4) != 0 ? 6 : 4, end = block.checksum - block.begin;
      size_t at = 6 + ((flags & 0x20) != 0 ? 16 : 0) + ((flags & 0x10) != 0 ? 4 : 0) +
                  (size_t{1} << (flags & 3));
      size_t spare = 0;
      for (; at + head <= end; at += head + byte(at + 1) + 256 * size_t{byte(at + 2)}) {
        if (byte(at) == kGroupInfo || byte(at) == kFillValue) spare = at;
      }
      if (at == end || spare == 0) continue;
      std::string file = unit.bytes;
      file[block.begin + spare] = 0;
      check_refused(unit, file);
      ++changed;
    }
  }
  CHECK(changed > 0);
}

TEST_CASE("a heap of more than its direct rows counts what it has room for") {
  Random random(34);
  const Sound large = unit([&](UnitWriter& w) {
    for (int i = 0; i < 6000; ++i) {
      w.add(small("0/" + std::to_string(i) + std::string(100, 'n'), random));
    }
  });
  CHECK_NOTHROW(open_and_read(large.bytes));
}

TEST_CASE("names in an index that are not in order are refused") {
  constexpr size_t kFrame = 6, kLink = 11, kAttribute = 17;
  const std::vector<Sound> units = sound_units();
  for (const auto& entry : {std::pair(&units[1], kLink), std::pair(&units[2], kAttribute)}) {
    const Sound* const unit = entry.first;
    const size_t size = entry.second;
    size_t swapped = 0;
    for (const Block& block : unit->blocks) {
      const auto byte = [&](size_t at) {
        return static_cast<uint8_t>(unit->bytes[block.begin + at]);
      };
      const bool leaf = std::string_view(unit->bytes).substr(block.begin, 4) == "BTLF";
      if (!leaf || byte(5) != (size == kLink ? 5 : 8)) continue;
      std::string file = unit->bytes;
      const size_t first = block.begin + kFrame;
      std::swap_ranges(&file[first], &file[first + size], &file[first + size]);
      check_refused(*unit, file);
      ++swapped;
    }
    CHECK(swapped > 0);
  }
}

TEST_CASE("datasets that share bytes are refused") {
  Random random(33);
  const Sound unit = ::unit([&](UnitWriter& w) {
    w.add(small("0/a", random));
    w.add(small("0/b", random));
  });
  const std::vector<size_t> layouts = places(unit, "OHDR", 0x08);
  REQUIRE(layouts.size() == 2);
  for (const int64_t offset : {0, 4, -4}) {
    std::string file = unit.bytes;
    int64_t address = 0;
    std::memcpy(&address, &file[layouts[0] + 2], sizeof address);
    address += offset;
    std::memcpy(&file[layouts[1] + 2], &address, sizeof address);
    CAPTURE(offset);
    check_refused(unit, file);
  }
}

TEST_CASE("a dataset without elements that names bytes is refused") {
  Random random(34);
  const Sound unit =
      ::unit([&](UnitWriter& w) { w.add(dataset("0/none", DType::kF32, {0}, random)); });
  const std::vector<size_t> layouts = places(unit, "OHDR", 0x08);
  REQUIRE(layouts.size() == 1);
  const size_t address = layouts[0] + 2, size = address + 8;
  REQUIRE(unit.bytes.substr(address, 16) == std::string(8, '\xff') + std::string(8, '\0'));
  const uint64_t end = unit.bytes.size();
  for (const auto& [at, value] :
       {std::pair(address, uint64_t{0}), std::pair(address, end), std::pair(address, end - 1),
        std::pair(address, uint64_t{1} << 40), std::pair(size, uint64_t{4})}) {
    std::string file = unit.bytes;
    std::memcpy(&file[at], &value, sizeof value);
    repair(file, unit.blocks);
    CAPTURE(at, value);
    try {
      open_and_read(file);
      FAIL("not refused");
    } catch (const FormatError& e) {
      CHECK(e.rule() == Rule::kLayout);
      CHECK(e.problem().dataset == "0/none");
      REQUIRE(e.problem().offset);
      CHECK(file.substr(*e.problem().offset, 4) == "OHDR");
    }
  }
}
