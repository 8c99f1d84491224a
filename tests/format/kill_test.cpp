#include <catch2/catch.hpp>
#include <iostream>

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "format/manifest.h"
#include "format/verify.h"
#include "tests/format/dumps.h"

/// A process that writes a dump is killed at random moments.
using namespace rlreplay;
using namespace rlreplay::format;
using namespace rlreplay::format::test;

namespace {

constexpr uint64_t kUnits = 24;

/// Writes what is missing, and tells through `acknowledged` how far it is after each unit.
[[noreturn]] void write_as_child(const std::string& path, int acknowledged) {
  // The one before was killed between its last rename and its end.
  if (std::filesystem::exists(path + "/" + kManifestName)) _exit(0);
  const bool begun = std::filesystem::exists(path + "/journal/0.jsonl") &&
                     read_text(path + "/journal/0.jsonl").find('\n') != std::string::npos;
  DumpWriter writer = begun ? DumpWriter::resume(path) : DumpWriter::create(path, kMeta);
  for (uint64_t unit = writer.units().size(); unit < kUnits; ++unit) {
    append_units(writer, unit, unit + 1);
    const char count = static_cast<char>(unit + 1);
    if (::write(acknowledged, &count, 1) != 1) _exit(3);
  }
  writer.seal();
  _exit(0);
}

struct Outcome {
  uint64_t acknowledged = 0;
  bool finished = false;
};

Outcome run_child(const std::string& path, long kill_after_us) {
  int pipes[2];
  if (::pipe(pipes) != 0) std::abort();
  const pid_t child = ::fork();
  if (child < 0) std::abort();
  if (child == 0) {
    try {
      write_as_child(path, pipes[1]);
    } catch (const std::exception& e) {
      std::cerr << "child: " << e.what() << std::endl;
      _exit(2);
    }
  }
  ::close(pipes[1]);
  timespec pause{kill_after_us / 1'000'000, kill_after_us % 1'000'000 * 1000};
  ::nanosleep(&pause, nullptr);
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  Outcome outcome;
  outcome.finished = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  REQUIRE((WIFSIGNALED(status) || outcome.finished));
  char count;
  while (::read(pipes[0], &count, 1) == 1) outcome.acknowledged = static_cast<uint64_t>(count);
  ::close(pipes[0]);
  return outcome;
}

}  // namespace

TEST_CASE("no kill loses an acknowledged unit, shows a torn one, or changes the end") {
  const uint64_t seed =
      static_cast<uint64_t>(::time(nullptr)) * 1000 + static_cast<uint64_t>(::getpid());
  std::cout << "seed " << seed << "\n";
  Random random(seed);
  TemporaryFolder folder;
  write_dump(folder / "whole", kUnits);
  const auto whole = snapshot(folder / "whole");
  const int trials = full() ? 200 : 20;
  int kills = 0;
  for (int trial = 0; kills < trials; ++trial) {
    const std::string path = folder / std::to_string(trial);
    uint64_t before = 0;
    for (bool finished = false; !finished;) {
      // Ever later, so that a slow machine gets to the end too.
      const long limit = 20'000 + 20'000 * (kills % 16);
      const Outcome outcome = run_child(path, static_cast<long>(random.below(limit)));
      finished = outcome.finished;
      kills += !finished;
      before = std::max(before, outcome.acknowledged);
      if (before == 0) continue;
      const VerifyReport report = verify(path, true);
      CAPTURE(trial, before);
      for (const Problem& problem : report.problems) {
        // A unit that got its name but no journal line yet: nobody was told of it.
        CHECK(to_string(problem.rule) == "unlisted");
      }
      REQUIRE(report.whole_units >= before);
      REQUIRE(report.whole_units == report.units);
      before = report.units;
    }
    CHECK(snapshot(path) == whole);
    std::filesystem::remove_all(path);
  }
}
