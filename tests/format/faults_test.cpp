#include <catch2/catch.hpp>
#include <cerrno>
#include <functional>
#include <set>

#include "format/rule.h"
#include "format/verify.h"
#include "tests/format/dumps.h"

/// A disk that fails at each call in turn, and damage of every kind of file.
using namespace rlreplay;
using namespace rlreplay::format;
using namespace rlreplay::format::test;

namespace {

/// Fails the call with number `at` (and, if `stays`, all later ones) with `reason`; writes are
/// short besides, and interrupted now and then.
class FaultySystem final : public System {
 public:
  FaultySystem(int at, int reason, bool stays) : at_(at), reason_(reason), stays_(stays) {}

  ssize_t write(int file, const void* bytes, size_t size) override {
    if (fault()) return -1;
    if (++writes_ % 3 == 0) {
      errno = EINTR;
      return -1;
    }
    return System::write(file, bytes, size > 64 ? size - size / 2 : size);
  }
  ssize_t write_at(int file, const void* bytes, size_t size, off_t at) override {
    if (fault()) return -1;
    if (++writes_ % 3 == 0) {
      errno = EINTR;
      return -1;
    }
    return System::write_at(file, bytes, size > 64 ? size - size / 2 : size, at);
  }
  int fsync(int file) override { return fault() ? -1 : System::fsync(file); }
  int syncfs(int file) override { return fault() ? -1 : System::syncfs(file); }
  int rename(int folder, const char* from, int to_folder, const char* to) override {
    return fault() ? -1 : System::rename(folder, from, to_folder, to);
  }
  int make_folder(int folder, const char* name) override {
    return fault() ? -1 : System::make_folder(folder, name);
  }
  int remove(int folder, const char* name) override {
    return fault() ? -1 : System::remove(folder, name);
  }
  int calls() const { return calls_; }
  void heal() { at_ = -1, stays_ = false; }

 private:
  bool fault() {
    const int call = calls_++;
    if (call != at_ && !(stays_ && at_ >= 0 && call > at_)) return false;
    errno = reason_;
    return true;
  }
  int at_, reason_;
  bool stays_;
  int calls_ = 0;
  int writes_ = 0;
};

constexpr uint64_t kUnits = 3;

/// Counts what waits for the disk before and after the manifest gets its name.
class CountingSystem : public System {
 public:
  int fsync(int file) override {
    ++fsyncs;
    return System::fsync(file);
  }
  int syncfs(int file) override {
    fsyncs_before = fsyncs;
    ++syncfs_calls;
    CHECK_FALSE(named_manifest);
    return System::syncfs(file);
  }
  int rename(int folder, const char* from, int to_folder, const char* to) override {
    named_manifest = named_manifest || std::string_view(to) == kManifestName;
    return System::rename(folder, from, to_folder, to);
  }
  int fsyncs = 0, syncfs_calls = 0, fsyncs_before = 0;
  bool named_manifest = false;
};

WriterOptions with(const std::shared_ptr<System>& system, Durable durable = Durable::kAppended) {
  WriterOptions options;
  options.durable = durable;
  options.threads = 1;
  options.system = system;
  return options;
}

std::string kinds_of(const std::string& path, bool deep) {
  std::set<std::string> rules;
  for (const Problem& problem : verify(path, deep).problems) {
    CHECK_FALSE(problem.message.empty());
    rules.emplace(to_string(problem.rule));
  }
  std::string text;
  for (const std::string& rule : rules) text += (text.empty() ? "" : " ") + rule;
  return text;
}

/// The rules that a file breaks once `change` was done to its bytes.
std::string damaged(const std::string& dump, const std::string& file,
                    const std::function<void(std::string&)>& change, bool deep = false) {
  const std::string before = read_text(dump + "/" + file);
  std::string after = before;
  change(after);
  write_text(dump + "/" + file, after);
  const std::string rules = kinds_of(dump, deep);
  write_text(dump + "/" + file, before);
  return rules;
}

}  // namespace

TEST_CASE("whatever call fails, what was acknowledged before is whole, and writing can go on") {
  TemporaryFolder folder;
  write_dump(folder / "whole", kUnits);
  const auto whole = snapshot(folder / "whole");
  int trial = 0, failures = 0;
  for (const Durable durable : {Durable::kAppended, Durable::kSealed}) {
    for (const auto& [reason, stays] :
         {std::pair{ENOSPC, false}, {ENOSPC, true}, {EIO, false}, {EIO, true}}) {
      for (int at = 0;; ++at) {
        const std::string path = folder / std::to_string(trial++);
        const auto system = std::make_shared<FaultySystem>(at, reason, stays);
        uint64_t acknowledged = 0;
        bool sealed = false;
        try {
          DumpWriter writer = DumpWriter::create(path, kMeta, with(system, durable));
          while (acknowledged < kUnits) {
            writer.append(unit_path(acknowledged), unit_datasets(acknowledged));
            ++acknowledged;
          }
          writer.seal();
          sealed = true;
        } catch (const Error& e) {
          ++failures;
          CHECK(e.code() == ErrorCode::kEnvironment);
        }
        CAPTURE(reason, stays, at, acknowledged);
        if (acknowledged > 0) {
          const DumpReader dump = DumpReader::open(path);
          REQUIRE(dump.units().size() >= acknowledged);
          CHECK(dump.units().size() <= acknowledged + 1);
          for (const UnitRecord& unit : dump.units()) CHECK_NOTHROW(dump.open_unit(unit));
        }
        if (!sealed && acknowledged > 0 && !DumpReader::open(path).sealed()) {
          DumpWriter writer = DumpWriter::resume(path);
          append_units(writer, writer.units().size(), kUnits);
          writer.seal();
        }
        if (acknowledged > 0 && !std::filesystem::exists(path + "/INCOMPLETE")) {
          CHECK(snapshot(path) == whole);
        }
        std::filesystem::remove_all(path);
        if (system->calls() <= at) break;
      }
    }
  }
  CHECK(failures > 60);
}

TEST_CASE("units wait for the disk when they must outlive the machine") {
  TemporaryFolder folder;
  const auto written = [&](const char* name, Durable durable) {
    const auto system = std::make_shared<CountingSystem>();
    DumpWriter writer = DumpWriter::create(folder / name, kMeta, with(system, durable));
    append_units(writer, 0, kUnits);
    writer.seal();
    CHECK(verify(folder / name, true).problems.empty());
    return system;
  };
  const auto appended = written("appended", Durable::kAppended);
  CHECK(appended->fsyncs > static_cast<int>(3 * kUnits));
  CHECK(appended->syncfs_calls == 0);
  const auto sealed = written("sealed", Durable::kSealed);
  CHECK(sealed->syncfs_calls == 1);
  CHECK(sealed->fsyncs_before == 0);
  CHECK(sealed->fsyncs > 1);  // the manifest, and its name
  const auto never = written("never", Durable::kNever);
  CHECK(never->syncfs_calls + never->fsyncs == 0);
  CHECK(snapshot(folder / "sealed") == snapshot(folder / "appended"));
}

TEST_CASE("after a full disk the same writer goes on once there is room") {
  TemporaryFolder folder;
  write_dump(folder / "whole", kUnits);
  const auto counter = std::make_shared<FaultySystem>(-1, 0, false);
  static_cast<void>(DumpWriter::create(folder / "count", kMeta, with(counter)));
  for (int at = 0; at < 30; ++at) {
    const std::string path = folder / std::to_string(at);
    const auto system = std::make_shared<FaultySystem>(counter->calls() + at, ENOSPC, true);
    DumpWriter writer = DumpWriter::create(path, kMeta, with(system));
    for (uint64_t unit = 0; unit < kUnits; ++unit) {
      try {
        append_units(writer, unit, unit + 1);
      } catch (const Error& e) {
        CHECK_THAT(e.what(), Catch::Contains("free some space"));
        system->heal();
        append_units(writer, unit, unit + 1);
      }
    }
    system->heal();
    writer.seal();
    CHECK(snapshot(path) == snapshot(folder / "whole"));
  }
}

TEST_CASE("a flipped byte in each kind of file is one clear finding") {
  TemporaryFolder folder;
  write_dump(folder / "a", 4);
  Random random(11);
  const auto flip = [&](std::string& text) {
    text[random.below(text.size())] ^= static_cast<char>(1 + random.below(255));
  };
  for (int i = 0; i < 40; ++i) {
    CHECK(damaged(folder / "a", "rollout/1.h5", flip) == "unit-hash");
    CHECK(damaged(folder / "a", "rollout/1.h5", flip, true) == "unit-hash");
    CHECK(damaged(folder / "a", "train/0-0/rank1.h5", flip) == "unit-hash");
    CHECK(damaged(folder / "a", "journal/0.jsonl", flip) == "journal");
    CHECK(damaged(folder / "a", "units.index", flip) == "index");
    const std::string manifest = damaged(folder / "a", "manifest.json", flip);
    CHECK((manifest == "record-hash" || manifest == "record-syntax"));
  }
}

TEST_CASE("truncation at each border is one clear finding") {
  TemporaryFolder folder;
  write_dump(folder / "a", 4);
  const auto cut = [](size_t size) { return [size](std::string& text) { text.resize(size); }; };
  const std::string unit = read_text(folder / "a/rollout/0.h5");
  for (const size_t size : {size_t{0}, size_t{1}, size_t{8}, size_t{48}, unit.size() - 1}) {
    CHECK(damaged(folder / "a", "rollout/0.h5", cut(size)) == "unit-size");
  }
  CHECK(damaged(folder / "a", "rollout/0.h5", [](std::string& t) { t += 'x'; }) == "unit-size");
  const std::string manifest = read_text(folder / "a/manifest.json");
  for (const size_t size : {size_t{0}, size_t{1}, manifest.size() / 2, manifest.size() - 1}) {
    CHECK(damaged(folder / "a", "manifest.json", cut(size)) == "record-syntax");
  }
  CHECK(damaged(folder / "a", "journal/0.jsonl", cut(10)) == "journal");
  std::filesystem::rename(folder / "a/train/0-0/rank0.h5", folder / "a/train/0-0/rank7.h5");
  CHECK(kinds_of(folder / "a", false) == "unit-missing unlisted");
  std::filesystem::remove(folder / "a/manifest.json");
  CHECK(kinds_of(folder / "a", false) == "manifest-missing");
  std::filesystem::remove(folder / "a/journal/0.jsonl");
  CHECK(kinds_of(folder / "a", false) == "not-a-dump");
}

TEST_CASE("an unfinished dump is judged by its journal, line by line") {
  TemporaryFolder folder;
  { append_units(*std::make_unique<DumpWriter>(DumpWriter::create(folder / "a", kMeta)), 0, 3); }
  const std::string journal = read_text(folder / "a/journal/0.jsonl");
  std::vector<size_t> ends;
  for (size_t i = 0; i < journal.size(); ++i) {
    if (journal[i] == '\n') ends.push_back(i + 1);
  }
  REQUIRE(ends.size() == 4);
  const auto units_at = [&](size_t size) {
    write_text(folder / "a/journal/0.jsonl", journal.substr(0, size));
    return DumpReader::open(folder / "a").units().size();
  };
  for (size_t lines = 1; lines <= 4; ++lines) {
    CHECK(units_at(ends[lines - 1]) == lines - 1);
    if (lines < 4) {
      CHECK(units_at(ends[lines] - 1) == lines - 1);
      CHECK(units_at(ends[lines - 1] + 1) == lines - 1);
    }
  }
  CHECK_THROWS_AS(units_at(0), FormatError);
  write_text(folder / "a/journal/0.jsonl", journal);
  const auto drop = [&](size_t line) {
    return [&, line](std::string& t) { t.erase(ends[line - 1], ends[line] - ends[line - 1]); };
  };
  CHECK(damaged(folder / "a", "journal/0.jsonl", drop(1)) == "chain");
  CHECK(damaged(folder / "a", "journal/0.jsonl", drop(2)) == "chain");
  CHECK(damaged(folder / "a", "journal/0.jsonl", drop(3)) == "unlisted");
}

TEST_CASE("links never lead out of a dump") {
  TemporaryFolder folder;
  write_dump(folder / "a", 3);
  std::filesystem::rename(folder / "a/rollout/0.h5", folder / "elsewhere.h5");
  std::filesystem::create_symlink(folder / "elsewhere.h5", folder / "a/rollout/0.h5");
  CHECK(kinds_of(folder / "a", false) == "unit-type");
  std::filesystem::remove(folder / "a/rollout/0.h5");
  std::filesystem::create_directory(folder / "a/rollout/0.h5");
  CHECK(kinds_of(folder / "a", false) == "unit-type");
  std::filesystem::remove_all(folder / "a/rollout");
  std::filesystem::create_directory(folder / "other");
  std::filesystem::rename(folder / "elsewhere.h5", folder / "other/0.h5");
  std::filesystem::create_directory_symlink(folder / "other", folder / "a/rollout");
  CHECK(kinds_of(folder / "a", false) == "unit-type unlisted");
}
