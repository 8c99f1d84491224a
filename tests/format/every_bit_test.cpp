#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "format/dump_reader.h"
#include "format/verify.h"
#include "tests/format/hdf5_blocks.h"
#include "tests/format/support.h"

/// Every length to which the files of a small dump can be cut, and every bit of them turned over:
/// each is refused by a rule, with its place, and what is whole beside it is still read. CI takes
/// one in eleven, another one for each seed; RLREPLAY_FULL=1 takes them all.
using namespace rlreplay;
using namespace rlreplay::format;
using namespace rlreplay::format::test;

namespace {

namespace fs = std::filesystem;

const std::string kGolden = RLREPLAY_SOURCE "/tests/golden/dumps/" + this_version();
const std::string kOneWriter = RLREPLAY_SOURCE "/tests/golden/dumps/0.9";
constexpr char kSmallest[] = "weights/1-0/rank0.h5";  // no other unit is a difference to it

/// What was done to a file: cut to `at` bytes, or bit `bit` of byte `at` turned over.
struct Damage {
  size_t at = 0;
  int bit = -1;

  bool cut() const { return bit < 0; }
  std::string of(const std::string& text) const {
    std::string out = text.substr(0, cut() ? at : text.size());
    if (!cut()) out[at] ^= static_cast<char>(1 << bit);
    return out;
  }
};

/// Calls `judge` with every damage to a file of `size` bytes, or a sample of them.
void for_each_damage(size_t size, const std::function<void(const Damage&)>& judge) {
  const size_t stride =
      full() ? 1 : 11;  // prime to the bits of a byte: all of them have their turn
  for (size_t i = rlreplay::test::seed() % stride; i < 9 * size; i += stride) {
    const Damage damage =
        i < size ? Damage{i} : Damage{(i - size) / 8, static_cast<int>((i - size) % 8)};
    CAPTURE(damage.at, damage.bit);
    judge(damage);
  }
}

VerifyReport verified(const std::string& path) {
  ReaderOptions options;
  options.threads = 1;
  return verify(path, true, options);
}

/// A copy of the golden dump, of which one file is damaged and made whole again.
class Copy {
 public:
  explicit Copy(const std::string& golden = kGolden) {
    fs::copy(golden, path(), fs::copy_options::recursive);
  }

  std::string path() const { return folder_ / "d"; }
  std::string file(const std::string& name) const { return path() + "/" + name; }

  void damage_each(const std::string& name,
                   const std::function<void(const Damage&, const VerifyReport&)>& judge) const {
    const std::string whole = read_text(file(name));
    for_each_damage(whole.size(), [&](const Damage& damage) {
      write_text(file(name), damage.of(whole));
      judge(damage, verified(path()));
    });
    write_text(file(name), whole);
  }

 private:
  TemporaryFolder folder_;
};

/// That the first problem is of this file, and begins where the damage is or before.
void check_place(const Damage& damage, const VerifyReport& report, const std::string& file) {
  REQUIRE(!report.problems.empty());
  const Problem& first = report.problems[0];
  CAPTURE(to_string(first.rule), first.path, first.message);
  CHECK(first.path.substr(0, first.path.find(':')) == file);
  REQUIRE(first.offset.has_value());
  CHECK(*first.offset <= damage.at + 1);  // a file without its last byte ends one later
}

}  // namespace

TEST_CASE("a manifest or journal of a sealed dump is refused at every length and with every bit") {
  const Copy copy;
  for (const std::string file : {"manifest.json", "units.index", "journal/0.jsonl"}) {
    CAPTURE(file);
    copy.damage_each(file, [&](const Damage& damage, const VerifyReport& report) {
      check_place(damage, report, file);
      CHECK(report.root == Hash{});  // nothing is said of what it means
      if (file == "journal/0.jsonl") CHECK(report.problems[0].rule == Rule::kJournal);
      if (file == "units.index") CHECK(report.problems[0].rule == Rule::kIndex);
    });
  }
  CHECK(verified(copy.path()).problems.empty());
}

TEST_CASE("an unfinished dump is read to the last whole line of its journal, and no bit is taken") {
  const bool two = GENERATE(false, true);  // writers
  const Copy copy(two ? kGolden : kOneWriter);
  fs::remove(copy.file("manifest.json"));
  fs::remove(copy.file("units.index"));
  write_text(copy.file("INCOMPLETE"), "");
  const std::string journal = read_text(copy.file("journal/0.jsonl"));
  const VerifyReport sound = verified(copy.path());
  REQUIRE(sound.problems.empty());
  // Of two writers the other's units stand; the first line says the dump, the last the end.
  const auto own = static_cast<uint64_t>(std::ranges::count(journal, '\n')) - 2;
  const uint64_t others = sound.units - own;
  REQUIRE((others > 0) == two);
  copy.damage_each("journal/0.jsonl", [&](const Damage& damage, const VerifyReport& report) {
    const std::string text = damage.of(journal);
    const auto lines = static_cast<uint64_t>(std::ranges::count(text, '\n'));
    // A last line without its end was never acknowledged: the one damage that is none.
    const bool unended = damage.cut() || damage.at + 1 == journal.size();
    if (lines == 0 && !two) {
      REQUIRE(!report.problems.empty());
      CHECK(report.problems[0].rule == Rule::kNotADump);
    } else if (unended) {
      const uint64_t units = others + (lines == 0 ? 0 : std::min(lines - 1, own));
      CHECK(report.units == units);
      CHECK(report.whole_units == report.units);
      CHECK((report.root != sound.root) == (units < sound.units));
      for (const Problem& problem : report.problems) CHECK(problem.rule == Rule::kUnlisted);
      CHECK(report.problems.size() == sound.units - report.units);
    } else {
      check_place(damage, report, "journal/0.jsonl");
      CHECK(report.units == 0);
    }
  });
}

TEST_CASE("a unit is refused at every length and with every bit, and the others stay whole") {
  const Copy copy;
  const uint64_t units = verified(copy.path()).units;
  copy.damage_each(kSmallest, [&](const Damage& damage, const VerifyReport& report) {
    REQUIRE(report.problems.size() == 1);
    const Problem& problem = report.problems[0];
    CHECK(problem.path == kSmallest);
    CHECK(problem.rule == (damage.cut() ? Rule::kUnitSize : Rule::kUnitHash));
    if (damage.cut()) CHECK(problem.offset == damage.at);
    CHECK(report.whole_units == units - 1);
  });
}

namespace {

/// A unit behind the gate of its hash: its record names the damaged bytes, as whoever chose them
/// would, and what they meant before.
class Unit {
 public:
  Unit() : dump_(DumpReader::open(kGolden)), sound_(dump_.open_unit(*dump_.find(kSmallest))) {}

  const std::string& bytes() const { return bytes_; }

  /// The rule that is broken; nothing where the unit says what it said. Errors: any but
  /// FormatError; a breach without a place, or other values, fail the test.
  bool refused(const std::string& bytes) {
    UnitRecord record = sound_.record();
    record.size = bytes.size();
    record.hash = hash_of(bytes);
    try {
      const auto image = std::as_bytes(std::span<const char>(bytes));
      const UnitReader unit = UnitReader::open(copy_of(image), record, pool_);
      REQUIRE(unit.datasets().size() == sound_.datasets().size());
      for (size_t i = 0; i < sound_.datasets().size(); ++i) {
        const StoredDataset &d = unit.datasets()[i], &was = sound_.datasets()[i];
        const bool same = d.path == was.path && d.dtype == was.dtype && d.shape == was.shape &&
                          d.hash == was.hash && d.attributes == was.attributes;
        CHECK(same);
        dump_.read(unit, d);  // which throws where its values do not have the hash
      }
      return false;
    } catch (const FormatError& e) {
      CAPTURE(e.what());
      CHECK(e.rule() > Rule::kUnitHash);
      CHECK(e.problem().path == kSmallest);
      // What a unit means has no one place in its bytes, and a base none in this file.
      const bool elsewhere = e.rule() == Rule::kContent || e.rule() == Rule::kParent;
      CHECK((e.problem().offset.has_value() || elsewhere));
      if (e.problem().offset) CHECK(*e.problem().offset <= bytes.size());
      return true;
    }
  }

 private:
  std::string bytes_ = read_text(kGolden + "/" + kSmallest);
  ThreadPool pool_{1};
  DumpReader dump_;
  UnitReader sound_;
};

}  // namespace

TEST_CASE("HDF5 that was damaged before it was hashed is refused") {
  Unit unit;
  const std::vector<Block> blocks = find_blocks(unit.bytes());
  const auto is_described = [&](size_t at) {
    const auto holds = [&](const Block& b) { return at >= b.begin && at < b.begin + b.size; };
    return std::ranges::any_of(blocks, holds);
  };
  REQUIRE(!unit.refused(unit.bytes()));
  // Ignored are the zeros between what is described and what is stored, which nothing leads to, and
  // of its zstd frame three bits that zstd's format leaves unused or reserved and decoders skip.
  int unused = 0;
  for_each_damage(unit.bytes().size(), [&](const Damage& damage) {
    if (unit.refused(damage.of(unit.bytes()))) return;
    CHECK((!damage.cut() && !is_described(damage.at)));
    unused += unit.bytes()[damage.at] != '\0';
  });
  CHECK(unused <= 3);
}

TEST_CASE("HDF5 whose checksums were made to fit is refused, or says what it said") {
  // Ignored then are bits that no reader of format/SPEC.md section 3 needs: flags of messages and
  // headers, empty messages, fill values.
  Unit unit;
  const std::vector<Block> blocks = find_blocks(unit.bytes());
  int ignored = 0, judged = 0;
  for_each_damage(unit.bytes().size(), [&](const Damage& damage) {
    if (damage.cut()) return;
    std::string bytes = damage.of(unit.bytes());
    repair(bytes, blocks);
    if (bytes == unit.bytes()) return;  // the checksum itself
    ++judged;
    ignored += !unit.refused(bytes);
  });
  std::cout << ignored << " of " << judged << " bits are ignored\n";
}
