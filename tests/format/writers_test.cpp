#include <catch2/catch.hpp>
#include <iostream>
#include <optional>
#include <thread>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "format/canonical.h"
#include "format/dump_files.h"
#include "tests/format/dumps.h"

/// Several writers of one dump: each has its journal, and none can lose what another has.
using namespace rlreplay;
using namespace rlreplay::format;
using namespace rlreplay::format::test;

namespace {

WriterOptions as(const std::string& writer) {
  WriterOptions options;
  options.threads = 1;
  options.writer = writer;
  return options;
}

/// The writers whose journal has no end.
std::vector<std::string> open_writers(const std::string& path) {
  std::vector<std::string> out;
  const DumpReader dump = DumpReader::open(path);
  for (const JournalEntry& journal : dump.journals()) {
    if (!journal.ended) out.push_back(journal.writer);
  }
  return out;
}

}  // namespace

TEST_CASE("writers share a dump, and the last one to end seals what a single one would have") {
  TemporaryFolder folder;
  const std::string path = folder / "a";
  const Hash root = write_dump(folder / "whole", 9);
  DumpWriter first = DumpWriter::create(path, kMeta, as("first"));
  DumpWriter second = DumpWriter::join(path, as("rank-1"));
  DumpWriter third = DumpWriter::join(path, as("rank-1.b"));
  append_units(first, 0, 2);
  append_units(third, 5, 9);
  append_units(second, 2, 4);
  append_units(first, 4, 5);
  CHECK(second.units().size() == 2);
  CHECK(second.meta() == first.meta());
  CHECK_FALSE(first.finish().has_value());
  CHECK(DumpReader::open(path).units().size() == 9);
  CHECK(rules_of(path).empty());
  CHECK(open_writers(path) == std::vector<std::string>{"rank-1", "rank-1.b"});
  expect_usage("ended", [&] { append_units(first, 9, 10); });
  CHECK_FALSE(third.finish().has_value());
  CHECK(second.finish() == root);
  const DumpReader dump = DumpReader::open(path);
  CHECK(dump.complete());
  CHECK(dump.root() == root);
  REQUIRE(dump.journals().size() == 3);
  CHECK(dump.journals()[0].writer == "first");
  CHECK(dump.journals()[2].writer == "rank-1.b");
  CHECK(rules_of(path).empty());
  CHECK_FALSE(std::filesystem::exists(path + "/INCOMPLETE"));
}

TEST_CASE("a unit is one writer's, and a name one writer's at a time") {
  TemporaryFolder folder;
  const std::string path = folder / "a";
  DumpWriter first = DumpWriter::create(path, kMeta, as("1"));
  DumpWriter second = DumpWriter::join(path, as("2"));
  append_units(first, 0, 1);
  expect_usage("another writer", [&] { append_units(second, 0, 1); });
  {
    // About to be acknowledged by another process, which holds the file's lock.
    const Folder dump = Folder::open(path);
    System system;
    PendingFile theirs = dump.begin_file(unit_path(1), system);
    expect_usage("writing a file of this name", [&] { append_units(second, 1, 2); });
    theirs.commit();
    expect_usage("another writer", [&] { append_units(second, 1, 2); });
  }
  // Its writer died before the line of its journal: it is nobody's.
  append_units(second, 1, 2);
  expect_usage("as writer 2", [&] { static_cast<void>(DumpWriter::join(path, as("2"))); });
  expect_usage("another process", [&] { static_cast<void>(DumpWriter::resume(path)); });
  expect_usage("another process", [&] { remove_dump(path); });
  expect_usage("is at work", [&] { first.seal(); });
  for (const char* name : {"", ".x", "a/b", "a b"}) {
    expect_usage("name", [&] { static_cast<void>(DumpWriter::join(path, as(name))); });
  }
  second.end();
  { const DumpWriter gone = std::move(second); }
  expect_usage("has ended", [&] { static_cast<void>(DumpWriter::join(path, as("2"))); });
  first.seal();
  expect_usage("sealed", [&] { static_cast<void>(DumpWriter::join(path, as("3"))); });
  CHECK_THROWS_AS(DumpWriter::join(folder / "absent", as("3")), Error);
  std::filesystem::create_directory(folder / "empty");
  CHECK_THROWS_AS(DumpWriter::join(folder / "empty", as("3")), FormatError);
  remove_dump(path);
  CHECK(snapshot(path).empty());
}

TEST_CASE("a writer that died is named, and goes on, is replaced, or is left out") {
  TemporaryFolder folder;
  const Hash root = write_dump(folder / "whole", 6);
  const auto begin = [&](const std::string& path) {
    std::optional<DumpWriter> dead;
    DumpWriter first = DumpWriter::create(path, kMeta, as("1"));
    dead.emplace(DumpWriter::join(path, as("2")));
    append_units(*dead, 3, 5);
    append_units(first, 0, 3);
    dead.reset();
    write_text(path + "/journal/2.jsonl", read_text(path + "/journal/2.jsonl") + R"({"body":{"l)");
    CHECK_FALSE(first.finish().has_value());
    expect_usage("writer 2 died", [&] { DumpWriter::join(path, as("coordinator")).seal(); });
    CHECK(std::ranges::count(open_writers(path), "2") == 1);
  };
  begin(folder / "on");
  {
    DumpWriter coordinator = DumpWriter::join(folder / "on", as("coordinator"));
    coordinator.end();
    DumpWriter again = DumpWriter::join(folder / "on", as("2"));
    CHECK(again.units().size() == 2);
    append_units(again, 5, 6);
    CHECK(again.finish() == root);
  }
  CHECK(rules_of(folder / "on").empty());
  begin(folder / "replaced");
  {
    DumpWriter all = DumpWriter::resume(folder / "replaced");
    CHECK(all.units().size() == 5);
    append_units(all, 5, 6);
    CHECK(all.seal() == root);
  }
  CHECK(open_writers(folder / "replaced").empty());
  CHECK(rules_of(folder / "replaced").empty());
  begin(folder / "closed");
  DumpWriter::resume(folder / "closed")
      .seal({.complete = false, .unstable = {}, .derived_from = {}});
  const DumpReader closed = DumpReader::open(folder / "closed");
  CHECK(closed.sealed());
  CHECK_FALSE(closed.complete());
  CHECK(closed.units().size() == 5);
  CHECK(open_writers(folder / "closed") == std::vector<std::string>{"2", "coordinator"});
  CHECK(rules_of(folder / "closed").empty());
}

TEST_CASE("journals that are none of one dump are refused") {
  TemporaryFolder folder;
  const std::string path = folder / "a";
  { append_units(*std::make_unique<DumpWriter>(DumpWriter::create(path, kMeta, as("1"))), 0, 3); }
  { append_units(*std::make_unique<DumpWriter>(DumpWriter::join(path, as("2"))), 3, 5); }
  CHECK(rules_of(path).empty());
  const std::string one = read_text(path + "/journal/1.jsonl");
  const auto judged = [&](const std::string& writer, const std::string& text) {
    write_text(path + "/journal/" + writer + ".jsonl", text);
    const std::string rules = rules_of(path);
    std::filesystem::remove(path + "/journal/" + writer + ".jsonl");
    return rules;
  };
  CHECK(judged("3", "").empty());  // its writer died before it began
  CHECK(judged("3", one) == "writer");
  CHECK(judged("3", journal_text("3", R"({"ranks":3})", {})) == "writer");
  const UnitRecord unit = DumpReader::open(path).units()[0];
  CHECK(judged("3", journal_text("3", DumpReader::open(path).meta(), {&unit, 1})) == "duplicate");
  std::string ended = journal_text("3", DumpReader::open(path).meta(), {});
  const std::string last = ended.substr(ended.size() - 35, 32);
  const std::string end = R"({"ended":true,"line":1,"previous":")" + last + "\"}";
  ended += record_line(end);
  CHECK(judged("3", ended).empty());
  CHECK(judged("3", ended + record_line(R"({"ended":true,"line":2,"previous":")" +
                                        hash_of(end).hex() + "\"}")) == "chain");
  CHECK(judged("3", journal_text("3", DumpReader::open(path).meta(), {}) +
                        record_line(R"({"ended":false,"line":1,"previous":")" + last + "\"}")) ==
        "schema");
  CHECK(judged("x y", one) == "unlisted");
}

namespace {

constexpr uint64_t kWriters = 8, kEach = 6;

/// Writes the units of writer `number` that it has not yet, and tells through `told` of each.
[[noreturn]] void write_as_child(const std::string& path, uint64_t number, int told) {
  try {
    DumpWriter writer = DumpWriter::join(path, as(std::to_string(number)));
    for (uint64_t unit = writer.units().size(); unit < kEach; ++unit) {
      append_units(writer, unit * kWriters + number, unit * kWriters + number + 1);
      const char count = 1;
      if (::write(told, &count, 1) != 1) _exit(3);
    }
    writer.end();
    _exit(0);
  } catch (const std::exception& e) {
    std::cerr << "child: " << e.what() << std::endl;
    _exit(2);
  }
}

struct Child {
  pid_t process = 0;
  int told = -1;
};

Child start(const std::string& path, uint64_t number) {
  int pipes[2];
  if (::pipe(pipes) != 0) std::abort();
  const pid_t child = ::fork();
  if (child < 0) std::abort();
  if (child == 0) write_as_child(path, number, pipes[1]);
  ::close(pipes[1]);
  return {child, pipes[0]};
}

/// How many units the child was told are stored; whether it came to its end.
std::pair<uint64_t, bool> wait_for(const Child& child) {
  int status = 0;
  ::waitpid(child.process, &status, 0);
  uint64_t units = 0;
  for (char count; ::read(child.told, &count, 1) == 1;) ++units;
  ::close(child.told);
  const bool ended = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  REQUIRE((ended || WIFSIGNALED(status)));
  return {units, ended};
}

}  // namespace

TEST_CASE("of eight writers one is killed: nothing is lost, it is named, and the end is the same") {
  Random random(rlreplay::test::seed());
  TemporaryFolder folder;
  const Hash root = write_dump(folder / "whole", kWriters * kEach);
  const int trials = full() ? 100 : 10;
  for (int trial = 0; trial < trials; ++trial) {
    const std::string path = folder / std::to_string(trial);
    DumpWriter::create(path, kMeta, as("begin")).end();
    std::vector<Child> children;
    for (uint64_t i = 0; i < kWriters; ++i) children.push_back(start(path, i));
    const uint64_t victim = random.below(kWriters);
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(60'000)));
    ::kill(children[victim].process, SIGKILL);
    uint64_t told = 0;
    for (uint64_t i = 0; i < kWriters; ++i) {
      const auto [units, whole] = wait_for(children[i]);
      told += units;
      CHECK((whole || i == victim));
    }
    CAPTURE(trial, victim, told);
    const VerifyReport report = verify(path, true);
    for (const Problem& problem : report.problems) CHECK(problem.rule == Rule::kUnlisted);
    CHECK(report.whole_units >= told);
    CHECK(report.whole_units <= told + 1);
    const std::vector<std::string> open = open_writers(path);
    const Folder dump = Folder::open(path);
    // Killed behind the line of its end, it has done.
    const auto journals = read_journals(dump);
    const auto own = std::ranges::find(journals, std::to_string(victim), &Journal::writer);
    const bool ended = own != journals.end() && own->ended;
    // Killed before it began it left no journal.
    const bool named = open == std::vector<std::string>{std::to_string(victim)};
    const bool absent = own == journals.end() && open.empty();
    CHECK((ended ? open.empty() : named || absent));
    if (trial % 2 == 0) {
      if (!ended) CHECK(wait_for(start(path, victim)).second);
      CHECK(DumpWriter::join(path, as("coordinator")).finish() == root);
    } else {
      DumpWriter all = DumpWriter::resume(path);
      for (uint64_t unit = 0; unit < kWriters * kEach; ++unit) {
        if (all.find(unit_path(unit)) == nullptr) append_units(all, unit, unit + 1);
      }
      CHECK(all.seal() == root);
    }
    CHECK(verify(path, true).problems.empty());
    CHECK(DumpReader::open(path).complete());
    std::filesystem::remove_all(path);
  }
}
