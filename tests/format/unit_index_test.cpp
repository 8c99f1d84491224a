#include "format/unit_index.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <thread>

#include "format/group_counts.h"
#include "format/rule.h"
#include "tests/format/support.h"

/// The table of units: what is written is what is read, and no other bytes are taken.
using namespace rlreplay;
using namespace rlreplay::format;
using namespace rlreplay::format::test;

namespace {

std::vector<UnitRecord> some_units() {
  std::vector<UnitRecord> units;
  const auto add = [&](const std::string& path, std::vector<std::string> groups) {
    UnitRecord& unit = units.emplace_back();
    unit.path = path;
    unit.size = 1000 + units.size();
    unit.logical = uint64_t{1} << (20 + units.size());
    unit.hash = hash_of(path);
    unit.content = hash_of(path + "content");
    unit.groups = std::move(groups);
  };
  add("rollout/0.h5", {"0", "1"});
  add("train/0-0/rank0.h5", {"0-0"});
  add("train/0-0/rank10.h5", {"0-0", "0-1"});
  add("train/0-0/rank2.h5", {"0-0"});
  add("weights/0-0/rank0.h5", {"0-0"});
  add("x-a/b.h5", {});
  units[0].group_contents = {{"1", Hash{1, 2}}};
  units[0].counts = {{"0", R"({"samples":3})"}};
  units[2].counts = {{"0-0", R"({"a":1})"}, {"0-1", R"({"b":{}})"}};
  return units;
}

std::string encoded(const std::vector<UnitRecord>& units) {
  std::vector<const UnitRecord*> sorted;
  for (const UnitRecord& unit : units) sorted.push_back(&unit);
  const Buffer<std::byte> bytes = UnitIndex::encode(sorted);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

UnitIndex parsed(const std::string& text) {
  Buffer<std::byte> bytes(text.size());
  if (!text.empty()) std::memcpy(bytes.data(), text.data(), text.size());
  return UnitIndex::parse(std::move(bytes));
}

std::string rule_of(const std::string& text) {
  try {
    static_cast<void>(parsed(text));
    return "none";
  } catch (const FormatError& e) {
    CHECK(e.problem().path == kIndexName);
    CHECK(e.problem().offset.value_or(UINT64_MAX) <= text.size());
    return std::string(to_string(e.rule()));
  }
}

}  // namespace

TEST_CASE("an index gives the records that it was made of") {
  const std::vector<UnitRecord> units = some_units();
  const std::string text = encoded(units);
  uint64_t bytes = 64;
  for (const UnitRecord& unit : units) bytes += index_bytes(unit);
  CHECK(text.size() == bytes);
  const UnitList list(parsed(text));
  REQUIRE(list.size() == units.size());
  for (size_t row = 0; row < units.size(); ++row) {
    CHECK(list[row] == units[row]);
    CHECK(list.index().find(units[row].path) == row);
  }
  CHECK(std::ranges::equal(list, units));
  CHECK(&*(list.begin() + 3) == &list[3]);
  CHECK(list.end() - list.begin() == 6);
  for (const char* absent : {"", "a", "rollout/0.h", "rollout/0.h55", "x-a/c.h5"}) {
    CHECK_FALSE(list.index().find(absent).has_value());
  }
  using Rows = std::vector<size_t>;
  CHECK(list.index().find("train", "0-0") == Rows{1, 3, 2});  // ranks 0, 2, 10
  CHECK(list.index().find("train", "0-1") == Rows{2});
  CHECK(list.index().find("rollout", "1") == Rows{0});
  CHECK(list.index().find("train", "1").empty());
  CHECK(list.index().find("zzz", "1").empty());
  CHECK(UnitList(parsed(encoded({}))).empty());
  const std::string root = "rlreplay root\n{}\nrollout/0.h5 " + units[0].content.hex() + "\n";
  CHECK(parsed(encoded({units[0]})).root("{}") == hash_of(root));
}

TEST_CASE("several threads make the records of one list") {
  std::vector<UnitRecord> units;
  for (int i = 10'000; i < 13'000; ++i) {
    UnitRecord& unit = units.emplace_back();
    unit.path = "rollout/" + std::to_string(i) + ".h5";
    unit.groups = {std::to_string(i)};
  }
  const UnitList list(parsed(encoded(units)));
  std::vector<std::thread> threads;
  std::vector<char> same(4);
  for (size_t t = 0; t < same.size(); ++t) {
    threads.emplace_back([&, t] { same[t] = std::ranges::equal(list, units); });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(same == std::vector<char>(4, 1));
}

TEST_CASE("every other form of an index is refused") {
  const std::vector<UnitRecord> units = some_units();
  const std::string text = encoded(units);
  CHECK(rule_of(text) == "none");
  for (size_t size = 0; size < text.size(); ++size)
    CHECK(rule_of(text.substr(0, size)) == "index-form");
  CHECK(rule_of(text + '\0') == "index-form");
  std::vector<UnitRecord> other = units;
  std::swap(other[1], other[2]);
  CHECK(rule_of(encoded(other)) == "index-form");
  other = units;
  other[3] = other[2];
  CHECK(rule_of(encoded(other)) == "duplicate");
  other = units;
  other[0].path = "other/0.h5";
  CHECK(rule_of(encoded(other)) == "unit-path");
  other = units;
  other[1].groups = {"0"};
  CHECK(rule_of(encoded(other)) == "index-form");
  other = units;
  other[1].size = (uint64_t{1} << 50) + 1;
  CHECK(rule_of(encoded(other)) == "index-form");
  std::string many = text;
  many[18] = 0x20;  // 2,000,000 units and some
  CHECK(rule_of(many) == "unit-count");
}

TEST_CASE("of an index no bit says another thing than a hash or a number of a unit") {
  const std::vector<UnitRecord> units = some_units();
  const std::string text = encoded(units);
  const size_t units_end = 64 + 72 * units.size(), groups_end = units_end + 56 * 7;
  int taken = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = text;
      damaged[at] ^= static_cast<char>(1 << bit);
      CAPTURE(at, bit);
      if (rule_of(damaged) != "none") continue;
      ++taken;
      const size_t in_unit = (at - 64) % 72, in_group = (at - units_end) % 56;
      const bool number = at >= 64 && at < units_end && in_unit >= 24;
      const bool content = at >= units_end && at < groups_end && in_group >= 24 && in_group < 40;
      const bool flag = at >= units_end && at < groups_end && in_group == 12 && bit == 0;
      // Zeros may be what a group says. A name may be another name of its grammar, counts any text:
      // their hash is the manifest's.
      const bool string = at >= groups_end + 8 * 7;
      CHECK((number || content || flag || string));
      CHECK_FALSE(std::ranges::equal(UnitList(parsed(damaged)), units));
    }
  }
  CHECK(taken > 1000);
}

TEST_CASE("an index lists its groups by unit, and by kind and name") {
  const UnitIndex index = parsed(encoded(some_units()));
  std::string listed, named;
  for (size_t number = 0; number < index.group_count(); ++number) {
    const IndexedGroup group = index.indexed_group(number);
    listed += std::to_string(group.row) + ":" + std::string(group.name) +
              std::string(group.counts) + (group.content ? "! " : " ");
  }
  index.for_each_name([&](std::span<const IndexedGroup> groups) {
    named += std::string(groups[0].kind()) + "/" + std::string(groups[0].name);
    for (const IndexedGroup& group : groups) named += " " + std::to_string(group.row);
    named += "; ";
  });
  CHECK(listed == "0:0{\"samples\":3} 0:1! 1:0-0 2:0-0{\"a\":1} 2:0-1{\"b\":{}} 3:0-0 4:0-0 ");
  CHECK(named == "rollout/0 0; rollout/1 0; train/0-0 1 3 2; train/0-1 2; weights/0-0 4; ");
  CHECK(index.stored_bytes() == 6021);
}

TEST_CASE("counts of a group are read, and those of another form refused") {
  const GroupCounts counts = parse_counts(
      R"({"columns":["a","b"],"events":true,"finish":[1,2,3,4,5],"new":{"x":[1]},)"
      R"("reward_mean":"nan","samples":2,"scalars":[["loss","0.5"]],"versions":[-1,7]})",
      "counts");
  CHECK(counts.columns == std::vector<std::string>{"a", "b"});
  CHECK(counts.events == true);
  CHECK(counts.finish == std::array<uint64_t, 5>{1, 2, 3, 4, 5});
  CHECK(std::isnan(counts.reward_mean.value()));
  CHECK(counts.samples == 2);
  CHECK_FALSE(counts.tokens);
  CHECK(counts.scalars->find("loss") == 0.5);
  CHECK(counts.versions == std::pair<int64_t, int64_t>(-1, 7));
  for (const char* wrong :
       {R"({"samples":-1})", R"({"samples":"2"})", R"({"finish":[1,2]})", R"({"finish":[]})",
        R"({"finish":[1,2,3,4,-5]})", R"({"versions":[1]})", R"({"scalars":[["loss"]]})",
        R"({"scalars":["loss"]})", R"({"reward_mean":"x"})", R"({"columns":"a"})", "[]", "{"}) {
    CHECK_THROWS_AS(static_cast<void>(parse_counts(wrong, "counts")), Error);
  }
}
