#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "src/base/error.h"
#include "src/replay/gate/environment.h"
#include "src/replay/gate/outcome.h"
#include "src/replay/gate/pending.h"
#include "src/replay/gate/place.h"
#include "src/replay/gate/self_test.h"
#include "tests/environment.h"
#include "tests/random.h"
#include "tests/temporary_folder.h"

/// What is said of a golden file: each line of the outcome table, reached by an edit that is known
/// to lead there.
using namespace rlreplay;
using namespace rlreplay::gate;

namespace {

using test::Random;

const Tolerance kLoss{"step * loss", Tolerance::Unit::kUlps, 4, "two kinds of cards"};

/// A golden file of some steps.
Golden golden_run(Random& random) {
  Golden out;
  out.environment = {{"processor", "one"}, {"libc", "2.36"}};
  out.options = {{"model", "demo"}};
  for (int64_t step = 0, steps = 1 + random.below(5); step < steps; ++step) {
    const std::string key = "step " + std::to_string(step) + " ";
    out.values[key + "loss"] = golden_value(1.0 + static_cast<double>(random.below(1 << 20)));
    out.values[key + "grad_norm"] = golden_value(0.5f + static_cast<float>(random.below(100)));
    out.values[key + "weights"] = "4c309745a492a87cb318ad5692662403";
  }
  return out;
}

/// A float some ulps further.
std::string moved(const std::string& value, int ulps) {
  double out = *golden_number(value);
  for (int i = 0; i < ulps; ++i) out = std::nextafter(out, HUGE_VAL);
  return golden_value(out);
}

std::string any_key(Random& random, const GoldenEntries& values, const std::string& end) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : values) {
    if (key.ends_with(end)) keys.push_back(key);
  }
  return keys[static_cast<size_t>(random.below(static_cast<int64_t>(keys.size())))];
}

/// One edit of what a run gives now, or of the golden file, and the line that it leads to.
struct Edit {
  Outcome expected;
  std::function<void(Random&, Golden&, Observation&)> apply;
};

const std::vector<Edit> kEdits = {
    {Outcome::kMatch, [](Random&, Golden&, Observation&) {}},
    {Outcome::kMatch,
     [](Random&, Golden&, Observation& now) { now.environment["processor"] = "two"; }},
    {Outcome::kLooseMatch,
     [](Random&, Golden& golden, Observation&) { golden.tolerances = {kLoss}; }},
    {Outcome::kRegression,
     [](Random& random, Golden&, Observation& now) {
       std::string& value = now.values[any_key(random, now.values, "loss")];
       value = moved(value, 1);
     }},
    {Outcome::kRegression,
     [](Random& random, Golden&, Observation& now) {
       now.values[any_key(random, now.values, "weights")][0] = '5';
     }},
    {Outcome::kRegression,
     [](Random& random, Golden&, Observation& now) {
       now.values.erase(any_key(random, now.values, "weights"));
     }},
    {Outcome::kRegression,
     [](Random&, Golden&, Observation& now) { now.values["step 9 loss"] = golden_value(1.0); }},
    {Outcome::kRegression,
     [](Random& random, Golden& golden, Observation& now) {  // just outside
       golden.tolerances = {kLoss};
       std::string& value = now.values[any_key(random, now.values, "loss")];
       value = moved(value, 5);
     }},
    {Outcome::kRegression,
     [](Random& random, Golden& golden, Observation& now) {  // another value than the loose one
       golden.tolerances = {kLoss};
       std::string& value = now.values[any_key(random, now.values, "grad_norm")];
       value = golden_value(std::nextafter(static_cast<float>(*golden_number(value)), 1e9f));
     }},
    {Outcome::kCodeDrift,
     [](Random& random, Golden& golden, Observation& now) {  // just inside
       golden.tolerances = {kLoss};
       std::string& value = now.values[any_key(random, now.values, "loss")];
       value = moved(value, 4);
     }},
    {Outcome::kEnvironmentDrift,
     [](Random& random, Golden& golden, Observation& now) {
       golden.tolerances = {kLoss};
       now.environment["libc"] = "2.41";
       std::string& value = now.values[any_key(random, now.values, "loss")];
       value = moved(value, 1 + static_cast<int>(random.below(4)));
     }},
    {Outcome::kUnattributed,
     [](Random& random, Golden&, Observation& now) {
       now.environment.erase("libc");
       std::string& value = now.values[any_key(random, now.values, "loss")];
       value = moved(value, 1);
     }},
    {Outcome::kVacuous,
     [](Random& random, Golden&, Observation& now) {
       now.values[any_key(random, now.values, "loss")] = "nan";
     }},
    {Outcome::kVacuous,
     [](Random&, Golden& golden, Observation& now) {
       for (auto* values : {&golden.values, &now.values}) {
         for (auto& [key, value] : *values) {
           if (key.ends_with("grad_norm")) value = golden_value(0.0f);
         }
       }
     }},
    {Outcome::kVacuous,
     [](Random&, Golden& golden, Observation& now) {
       golden.values.clear();
       now.values.clear();
     }},
    {Outcome::kUnstable,
     [](Random& random, Golden&, Observation& now) {
       now.again = now.values;
       std::string& value = (*now.again)[any_key(random, now.values, "loss")];
       value = moved(value, 1);
     }},
    {Outcome::kNotJudged,
     [](Random&, Golden&, Observation& now) { now.problem = "the run exited with code 3"; }},
};

ErrorCode code_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::kInternal;
}

}  // namespace

TEST_CASE("each edit ends in the line of the outcome table that it was made for") {
  Random random(test::seed());
  for (int round = 0; round < 200; ++round) {
    const Edit& edit = kEdits[static_cast<size_t>(round) % kEdits.size()];
    Golden golden = golden_run(random);
    Observation now{.environment = golden.environment, .values = golden.values};
    edit.apply(random, golden, now);
    const GoldenVerdict judgement = judge(golden, now);
    CAPTURE(round, to_string(edit.expected), judgement.reason);
    CHECK(to_string(judgement.outcome) == to_string(edit.expected));
    CHECK(passes(judgement.outcome, false) == (edit.expected <= Outcome::kEnvironmentDrift));
    CHECK(passes(judgement.outcome, true) == (edit.expected <= Outcome::kLooseMatch));
  }
}

TEST_CASE("one ulp anywhere turns an exact golden file red") {
  Random random(test::seed());
  for (int round = 0; round < 200; ++round) {
    const Golden golden = golden_run(random);
    Observation now{.environment = golden.environment, .values = golden.values};
    const std::string key = any_key(random, now.values, round % 2 == 0 ? "loss" : "grad_norm");
    std::string& value = now.values[key];
    value =
        round % 2 == 0
            ? moved(value, 1)
            : golden_value(std::nextafter(static_cast<float>(*golden_number(value)), HUGE_VALF));
    const GoldenVerdict judgement = judge(golden, now);
    CHECK(judgement.outcome == Outcome::kRegression);
    REQUIRE(judgement.differences.size() == 1);
    CHECK(judgement.differences[0].bits.key == key);
    CHECK(judgement.differences[0].bits.ulps == 1);
  }
}

TEST_CASE("a tolerance has a unit, a bound and a reason") {
  for (const char* text : {"4 ulps: why", "1e-06 relative: it is so", "0.5 absolute: a b: c"}) {
    CHECK(to_string(parse_tolerance("k", text, "file")) == text);
  }
  for (const char* text : {"", "4", "4 ulps", "4 ulps:", "4 ulps: ", "x ulps: why", "0 ulps: why",
                           "-1 ulps: why", "inf ulps: why", "4 meters: why", ": why", "4: why"}) {
    CAPTURE(text);
    CHECK(code_of([&] { static_cast<void>(parse_tolerance("k", text, "file")); }) ==
          ErrorCode::kUsage);
  }
  using Unit = Tolerance::Unit;
  CHECK(distance(Unit::kUlps, "0x1p+0", "0x1.0000000000003p+0") == 3.0);
  CHECK(distance(Unit::kUlps, "0x1p+0f", "0x1.000002p+0f") == 1.0);
  CHECK(distance(Unit::kAbsolute, "0x1p+0", "-0x1p+0") == 2.0);
  CHECK(distance(Unit::kRelative, "0x1p+0", "0x1p+1") == 0.5);
  CHECK(distance(Unit::kRelative, "0x0p+0", "-0x0p+0") == 0.0);
  for (const Unit unit : {Unit::kUlps, Unit::kAbsolute, Unit::kRelative}) {
    CHECK_FALSE(distance(unit, "4c3097", "4c3098"));
    CHECK_FALSE(distance(unit, "0x1p+0", "nan"));
  }
  CHECK_FALSE(distance(Unit::kAbsolute, "0x1p+0", "inf"));
}

TEST_CASE("of several tolerances whose patterns fit a value all hold") {
  using Unit = Tolerance::Unit;
  const Tolerance ulps{"m loss", Unit::kUlps, 2, "a"}, wide{"m *", Unit::kAbsolute, 1, "b"};
  const GoldenEntries recorded = {{"m loss", "0x1p+0"}},
                      near = {{"m loss", "0x1.0000000000002p+0"}},
                      far = {{"m loss", "0x1.0000000000003p+0"}}, farther = {{"m loss", "0x1p+9"}};
  for (const auto& both : {std::vector{ulps, wide}, std::vector{wide, ulps}}) {
    CHECK(differences(both, recorded, near)[0].within);
    CHECK_FALSE(differences(both, recorded, far)[0].within);
    CHECK(differences(both, recorded, far)[0].tolerance == ulps);
    CHECK(differences(both, recorded, farther)[0].tolerance == both[0]);
  }
}

TEST_CASE("what could not be recorded is no candidate") {
  Random random(test::seed());
  const Golden golden = golden_run(random);
  const Observation once{.environment = golden.environment, .values = golden.values};
  Observation twice = once;
  twice.again = once.values;
  CHECK_FALSE(acceptable(golden, once));
  CHECK(acceptable(golden, twice));
  Observation unstable = twice, vacuous = twice, failed = twice;
  (*unstable.again)["step 0 loss"] = moved(unstable.values["step 0 loss"], 1);
  vacuous.values["step 0 loss"] = "nan";
  failed.problem = "it failed";
  for (const auto& now : {unstable, vacuous, failed}) CHECK_FALSE(acceptable(golden, now));
}

TEST_CASE("a quarantine lets known mismatches pass until its day has ended") {
  const std::optional<Quarantine> known = Quarantine{"2026-12-31", "a person", "a driver"};
  for (const Outcome outcome : {Outcome::kEnvironmentDrift, Outcome::kCodeDrift,
                                Outcome::kRegression, Outcome::kUnattributed, Outcome::kUnstable}) {
    CHECK(excused(outcome, known, "2026-12-31"));
    CHECK_FALSE(excused(outcome, known, "2027-01-01"));
    CHECK_FALSE(excused(outcome, std::nullopt, "2026-12-31"));
  }
  CHECK_FALSE(excused(Outcome::kVacuous, known, "2026-12-31"));
  CHECK_FALSE(excused(Outcome::kNotJudged, known, "2026-12-31"));
  CHECK(quarantine_of(lines_of(*known), "file") == *known);
  for (const char* day : {"", "2026-02-30", "2026-1-31", "31.12.2026", "2026-12-31 ", "20261231xx",
                          "-026-12-31", "2026-13-01"}) {
    CAPTURE(day);
    const GoldenEntries lines = {{"until", day}, {"owner", "a"}, {"reason", "b"}};
    CHECK(code_of([&] { static_cast<void>(quarantine_of(lines, "file")); }) == ErrorCode::kUsage);
  }
  CHECK(code_of([&] {
          static_cast<void>(quarantine_of({{"until", "2026-12-31"}}, "f"));
        }) == ErrorCode::kUsage);
}

TEST_CASE("tolerances shrink to what runs need of each other, and never grow") {
  using Unit = Tolerance::Unit;
  const std::vector<Tolerance> loose = {{"m *", Unit::kUlps, 8, "a"},
                                        {"m loss", Unit::kAbsolute, 0.25, "b"},
                                        {"n *", Unit::kRelative, 0.5, "c"}};
  const GoldenEntries one = {{"m loss", "0x1p+0"}, {"n x", "0x1p+0"}},
                      two = {{"m loss", "0x1.0000000000003p+0"}, {"n x", "0x1p+0"}},
                      three = {{"m loss", "0x1.fffffffffffffp-1"}, {"n x", "0x1p+0"}};
  const std::vector<Tolerance> tight = tightened(loose, {one, two, three});
  REQUIRE(tight.size() == 2);
  CHECK(tight[0] == Tolerance{"m *", Unit::kUlps, 4, "a"});  // between two and three
  CHECK(tight[1].bound == 0x1.0000000000003p+0 - 0x1.fffffffffffffp-1);
  const auto apart = differences(tight, two, three);
  CHECK(apart[0].within);
  CHECK(tightened({{"m *", Unit::kUlps, 2, "a"}}, {two, three})[0].bound == 2);
  CHECK(tightened({{"m *", Unit::kUlps, 2, "a"}}, {one, {}})[0].bound == 2);
  CHECK(tightened(loose, {one, one}).empty());
}

TEST_CASE("noise is the distance of the two runs that lie farthest apart") {
  using Unit = Tolerance::Unit;
  Random random(test::seed());
  for (int round = 0; round < 300; ++round) {
    std::vector<GoldenEntries> runs;
    for (int64_t i = 0, n = 2 + random.below(8); i < n; ++i) {
      const double x = std::ldexp(static_cast<double>(random.below(1 << 20)),
                                  static_cast<int>(random.below(4)) - 20);
      runs.push_back({{"loss", golden_value(random.below(2) == 0 || round % 2 == 0 ? x : -x)}});
    }
    for (const Unit unit : {Unit::kUlps, Unit::kAbsolute, Unit::kRelative}) {
      double farthest = 0;
      for (const GoldenEntries& a : runs) {
        for (const GoldenEntries& b : runs) {
          farthest = std::max(farthest, distance(unit, a.at("loss"), b.at("loss")).value_or(1e300));
        }
      }
      const auto tight = tightened({{"loss", unit, 1e300, "a"}}, runs);
      if (farthest == 0) {
        CHECK(tight.empty());
        continue;
      }
      CAPTURE(round, farthest, to_string(tight.at(0)));
      CHECK(tight[0].bound >= farthest);
      CHECK(tight[0].bound <= farthest * (unit == Unit::kRelative ? 1 + 1e-15 : 1));
    }
  }
}

TEST_CASE("a changed input is named, unless the file says nothing of inputs") {
  Random random(test::seed());
  Golden golden = golden_run(random);
  Observation now{
      .environment = golden.environment, .inputs = {{"model", "b"}}, .values = golden.values};
  CHECK(judge(golden, now).inputs.empty());
  golden.inputs = {{"model", "a"}, {"prompts", "c"}};
  CHECK(judge(golden, now).inputs ==
        std::vector<std::string>{"model: a recorded, b now", "prompts: c recorded, nothing now"});
  CHECK(judge(golden, now).outcome == Outcome::kMatch);
}

TEST_CASE("a gate sees changes that are planted in it, unless a tolerance hides them") {
  Random random(test::seed());
  using Unit = Tolerance::Unit;
  for (const auto& tolerances :
       {std::vector<Tolerance>{},
        {kLoss},
        {{"step *", Unit::kAbsolute, 1e-3, "a"}},
        {{"step *", Unit::kRelative, 1e-2, "a"}, {"step * loss", Unit::kUlps, 1e6, "b"}}}) {
    Golden golden = golden_run(random);
    golden.tolerances = tolerances;
    const SelfTest test = self_test(golden);
    CHECK(test.planted == golden.values.size());
    CHECK(test.unseen.empty());
  }
  Golden golden = golden_run(random);
  for (const double recorded : {1.0, -1.0, 0.0, -0.0, 1e-300, -3.5e30}) {
    for (const Tolerance& t : std::vector<Tolerance>{{"*", Unit::kUlps, 4097, "a"},
                                                     {"*", Unit::kUlps, 9000, "a"},
                                                     {"*", Unit::kUlps, 1e15, "a"},
                                                     {"*", Unit::kAbsolute, 1, "a"},
                                                     {"*", Unit::kAbsolute, 1e-310, "a"},
                                                     {"*", Unit::kRelative, 0.75, "a"}}) {
      Golden one;
      one.environment = {{"libc", "2.36"}};  // in another one tolerances count
      one.tolerances = {t};
      one.values = {{"other", "1"}, {"x", golden_value(recorded)}};
      CAPTURE(recorded);
      CAPTURE(to_string(t));
      CHECK(self_test(one).unseen.empty());
      one.values["x"] = golden_value(static_cast<float>(recorded));
      if (t.bound < 1e15) CHECK(self_test(one).unseen.empty());  // no float is farther
    }
    Golden any;  // of the same sign all pass, as far up and down as there are numbers
    any.environment = {{"libc", "2.36"}};
    any.tolerances = {{"x", Unit::kRelative, 1.5, "a"}};
    any.values = {{"other", "1"}, {"x", golden_value(recorded)}};
    CHECK(self_test(any).unseen == std::vector<std::string>{"x"});
  }
  golden.environment = {{"libc", "2.36"}};
  golden.tolerances = {{"step 0 loss", Unit::kRelative, 2, "all of them"}};
  CHECK(self_test(golden).unseen == std::vector<std::string>{"step 0 loss"});
  for (int i = 0; i < 3000; ++i) golden.values["x" + std::to_string(i)] = golden_value(1.0);
  CHECK(self_test(golden).planted <= kMostPlanted);
  CHECK(self_test(golden).planted > kMostPlanted / 2);
}

TEST_CASE("a golden file keeps what its lines mean") {
  Random random(test::seed());
  Golden golden = golden_run(random);
  golden.about = {{"reason", "the first one"}, {"commit", "0123"}};
  golden.tolerances = {kLoss};
  golden.quarantine = Quarantine{"2026-12-31", "a person", "a driver"};
  const GoldenFile file = file_of(golden);
  CHECK(file.entries.at("about reason") == "the first one");
  CHECK(file.entries.at("tolerance step * loss") == "4 ulps: two kinds of cards");
  const Golden read = golden_of(file, "file");
  CHECK(file_of(read).entries == file.entries);
  CHECK(read.values == golden.values);
  CHECK(read.tolerances == golden.tolerances);
  CHECK(read.quarantine == golden.quarantine);
}

TEST_CASE("of a test's files the narrowest class that is this machine's counts") {
  CHECK(key_of("a/b.txt") == Key{"a/b", "any"});
  CHECK(key_of("a@c/b@x86_64-avx2.txt") == Key{"a@c/b", "x86_64-avx2"});
  CHECK(path_of({"a", "any"}) == "a.txt");
  CHECK(path_of({"a", "h100"}) == "a@h100.txt");
  for (const char* path : {"a.json", ".txt", "a@.txt", "a@H100.txt", "a@b c.txt", "a@any.txt"}) {
    CHECK(code_of([&] { static_cast<void>(key_of(path)); }) == ErrorCode::kUsage);
  }
  const std::vector<std::string> files = {"a.txt", "a@h100.txt", "a@sm90.txt", "b@h200.txt"};
  const auto chosen = choose(files, {"sm90", "any"});
  REQUIRE(chosen.size() == 2);
  CHECK(chosen[0].path == "a@sm90.txt");
  CHECK(chosen[0].instead == std::vector<std::string>{"a.txt", "a@h100.txt"});
  CHECK(chosen[1].path.empty());
  CHECK(choose(files, {"none", "any"})[0].path == "a.txt");
  CHECK(choose({"a.txt", "b@X.txt"}, {"any"})[1].path == "b@X.txt");
}

TEST_CASE("the files of a test stay together by however many names their folder is given") {
  namespace fs = std::filesystem;
  const test::TemporaryFolder folder;
  fs::create_directories(folder / "goldens");
  fs::create_directories(folder / "far/below");
  fs::create_directory_symlink(folder / "goldens", folder / "link");
  fs::create_directory_symlink(folder / "far/below", folder / "deep");
  for (const char* path : {"goldens/t.txt", "goldens/t@h100.txt", "far/x.txt", "x.txt"}) {
    std::ofstream(folder / path) << "# rlreplay golden 2\n";
  }
  for (const char* first : {"./goldens/", "goldens//", "goldens/../goldens/", "link/"}) {
    const std::string h100 = folder / first + std::string("t@h100.txt");
    const auto files = find_golden_files({h100, folder / "goldens/"}).files;
    REQUIRE(files.size() == 2);
    const auto chosen = choose(files, {"h100", "any"});
    REQUIRE(chosen.size() == 1);
    CHECK(chosen[0].path == h100);
    CHECK(chosen[0].instead == std::vector<std::string>{folder / first + std::string("t.txt")});
  }
  CHECK(find_golden_files({folder / "deep/../x.txt", folder / "x.txt"}).files.size() == 2);
}

TEST_CASE("a candidate waits outside of the tree") {
  const test::TemporaryFolder folder;
  const auto make = [&](const std::string& path) {
    std::filesystem::create_directories(folder / path);
  };
  make("repository/.git");
  make("repository/golden");
  make("worktree");
  std::ofstream(folder / "worktree/.git") << "gitdir: ../repository/.git/worktrees/w\n";
  const std::string inside = pending_path(folder / "repository/golden/a.txt");
  CHECK(inside.starts_with(folder / "repository/.git/rlreplay/pending/"));
  CHECK(inside != pending_path(folder / "repository/a.txt"));
  CHECK(pending_path(folder / "worktree/a.txt").find("/repository/.git/worktrees/w/rlreplay") !=
        std::string::npos);
}
