#include "src/bisect/history_search.h"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <random>

#include "src/base/error.h"

using namespace rlreplay;
using namespace rlreplay::bisect;
using Catch::Matchers::Contains;
using measure::Evidence;
using measure::RunKind;

namespace {

/// A place of a made-up history.
struct Node {
  int value = 0;
  bool broken = false;
  int content = 0;   // equal for revisions that differ in documents only
  double flaky = 0;  // how often it says the other value
  double noise = 0;  // the standard deviation of what it says
};

Measurement ran(double value) {
  return {.kind = RunKind::kRan,
          .evidence = Evidence::kMetrics,
          .metrics = {{"loss", false, {{value}}, {}}}};
}

/// Runs nothing: what a revision would have left is known.
class FakeExecutor : public measure::Executor {
 public:
  Measurement measure(const Candidate& candidate, Build build) override {
    ++runs;
    if (build == Build::kFresh || last_ != candidate.revision) ++builds_;
    last_ = candidate.revision;
    const Node& node = nodes.at(candidate.revision);
    double value = node.value;
    if (node.noise > 0) value += std::normal_distribution(0.0, node.noise)(random);
    Measurement out = ran(value);
    for (size_t i = 1; i < length; ++i) out.metrics[0].values.push_back({value + double(i)});
    if (beside) out.metrics.push_back({"step_time", false, {{double(runs)}}, {}});
    if (node.broken) out = {.kind = RunKind::kBuildFailed, .problem = "broken"};
    if (std::bernoulli_distribution(node.flaky)(random)) out = ran(node.value == 0 ? 1 : 0);
    out.build = std::to_string(builds_);
    return out;
  }

  /// In any order, as runs at once end.
  void measure_all(std::span<const Candidate> candidates, const Measured& measured) override {
    ++rounds;
    most = std::max(most, candidates.size());
    std::vector<size_t> order(candidates.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::shuffle(order.begin(), order.end(), random);
    for (const size_t i : order) measured(i, measure(candidates[i], Build::kAny));
  }

  std::map<std::string, Node> nodes;
  std::mt19937 random{7};
  size_t runs = 0, rounds = 0, most = 0;
  bool beside = false;  // whether there is a number that never repeats
  size_t length = 1;    // how many numbers a run leaves

 private:
  size_t builds_ = 0;
  std::string last_;
};

/// Keeps measurements as files would.
class FakeStore : public MeasurementStore {
 public:
  std::vector<Measurement> load(const Candidate& candidate) override {
    return all[key_of(candidate)];
  }
  void save(const Candidate& candidate, const Measurement& measurement) override {
    all[key_of(candidate)].push_back(measurement);
  }
  std::map<std::string, std::vector<Measurement>> all;
};

struct World {
  FakeExecutor executor;
  FakeStore store;
  std::vector<Revision> history;
  std::map<std::string, std::vector<std::vector<Revision>>> branches;
  std::map<std::string, std::string> declared;  // what revisions are said to depend on

  Revision add(const std::string& id, const Node& node) {
    executor.nodes[id] = node;
    return {.id = id, .tree = "t" + std::to_string(node.content)};
  }

  Finding find(const SearchPlan& plan = {}, size_t most = SIZE_MAX) {
    Sampler sampler(executor, &store);
    sampler.set_most(most);
    const auto candidate_of = [&](const Revision& revision) {
      Candidate out{.revision = revision.id, .content = revision.tree};
      const auto at = declared.find(revision.id);
      if (at != declared.end()) out.declared = at->second;
      return out;
    };
    HistorySearch search(history, plan, sampler, candidate_of,
                         {.branches =
                              [&](const Revision& merge) {
                                const auto at = branches.find(merge.id);
                                return at == branches.end() ? std::vector<std::vector<Revision>>()
                                                            : at->second;
                              }},
                         {});
    Finding found = search.find();
    bytes = sampler.bytes();
    return found;
  }

  size_t bytes = 0;  // of the numbers that the last search held
};

/// A linear history that changes once.
void fill(World& world, std::mt19937& random, size_t count, size_t culprit, double broken = 0,
          double documents = 0) {
  const auto chance = [&](double p) { return std::bernoulli_distribution(p)(random); };
  size_t broken_until = 0;
  int content = 0;
  for (size_t i = 0; i < count; ++i) {
    if (chance(broken)) broken_until = i + (chance(0.1) ? 20 : 2);
    const bool end = i == 0 || i + 1 == count;
    const bool is_broken = !end && i < broken_until;
    const bool was_broken = i > 0 && world.executor.nodes.at("r" + std::to_string(i - 1)).broken;
    const bool same = i > 0 && i != culprit && is_broken == was_broken && chance(documents);
    if (!same) ++content;
    world.history.push_back(
        world.add("r" + std::to_string(i), {i >= culprit ? 1 : 0, is_broken, content, 0}));
  }
}

std::vector<std::string> ids(const std::vector<Revision>& revisions) {
  std::vector<std::string> out;
  for (const Revision& revision : revisions) out.push_back(revision.id);
  return out;
}

/// What a scan of all revisions would answer.
std::vector<std::string> scan(const World& world) {
  const auto node = [&](size_t i) { return world.executor.nodes.at(world.history[i].id); };
  size_t good = 0, bad = world.history.size() - 1;
  for (size_t i = 0; i < world.history.size(); ++i) {
    if (node(i).broken) continue;
    if (node(i).value == 0) good = i;
    if (node(i).value == 1) {
      bad = i;
      break;
    }
  }
  std::vector<std::string> out;
  for (size_t i = good + 1; i <= bad; ++i) out.push_back(world.history[i].id);
  return out;
}

}  // namespace

TEST_CASE("histories that change once are answered as a scan of all of them would") {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    const size_t count = std::uniform_int_distribution<size_t>(2, 400)(random);
    const size_t culprit = std::uniform_int_distribution<size_t>(1, count - 1)(random);
    World world;
    fill(world, random, count, culprit, round % 2 == 0 ? 0 : 0.02, 0.3);
    const Finding found = world.find();
    REQUIRE(found.result == SearchResult::kFound);
    REQUIRE(ids(found.suspects) == scan(world));
    REQUIRE(found.contradictions.empty());
  }
}

TEST_CASE("runs at once change no answer, and take fewer rounds") {
  std::mt19937 random(9);
  for (int round = 0; round < 3000; ++round) {
    const size_t count = std::uniform_int_distribution<size_t>(2, 400)(random);
    const size_t culprit = std::uniform_int_distribution<size_t>(1, count - 1)(random);
    const size_t jobs = std::uniform_int_distribution<size_t>(2, 9)(random);
    const bool odd = round % 2 == 0;
    World world, one_by_one;
    std::mt19937 same = random;
    fill(world, random, count, culprit, odd ? 0.02 : 0, odd ? 0.3 : 0);
    fill(one_by_one, same, count, culprit, odd ? 0.02 : 0, odd ? 0.3 : 0);
    const Finding found = world.find({.jobs = jobs});
    const Finding expected = one_by_one.find();
    REQUIRE(found.result == SearchResult::kFound);
    REQUIRE(ids(found.suspects) == ids(expected.suspects));
    REQUIRE(found.parent->id == expected.parent->id);
    REQUIRE(found.contradictions.empty());
    REQUIRE(world.executor.most <= jobs);
    if (odd) continue;
    const double least = std::log(double(count - 1)) / std::log(double(jobs + 1));
    REQUIRE(world.executor.rounds <= static_cast<size_t>(std::ceil(least)) + 2);
  }
}

TEST_CASE("runs at once are no more than the user allows, and go on where they were") {
  std::mt19937 random(10);
  World world;
  fill(world, random, 300, 123);
  for (size_t round = 0;; ++round) {
    REQUIRE(round < 40);
    const size_t before = world.executor.runs;
    const Finding found = world.find({.jobs = 4}, 2);
    CHECK(world.executor.runs - before <= 2);
    if (found.result != SearchResult::kFound) continue;
    CHECK(ids(found.suspects) == std::vector<std::string>{"r123"});
    break;
  }
  World whole;
  fill(whole, random, 300, 123);
  static_cast<void>(whole.find({.jobs = 4}));
  CHECK(world.executor.runs == whole.executor.runs);
}

TEST_CASE("runs at once that contradict the answer are told") {
  std::mt19937 random(11);
  World world;
  fill(world, random, 64, 40);
  for (size_t i = 8; i < 24; ++i) world.executor.nodes["r" + std::to_string(i)].value = 1;
  const Finding found = world.find({.probes = 0, .jobs = 7});
  CHECK(found.confirmed);
  CHECK(!found.contradictions.empty());
}

TEST_CASE("what a search costs, and that a second one costs nothing") {
  std::mt19937 random(2);
  for (const size_t count : {size_t{2}, size_t{3}, size_t{9}, size_t{100}, size_t{1000}}) {
    World world;
    fill(world, random, count, count / 2);
    const Finding found = world.find();
    REQUIRE(found.confirmed);
    CHECK(world.executor.runs <= 4 + static_cast<size_t>(std::bit_width(count - 2)) + 2 + 4);
    const size_t before = world.executor.runs;
    const Finding again = world.find();
    CHECK(world.executor.runs == before);
    CHECK(ids(again.suspects) == ids(found.suspects));
    CHECK(again.confirmed);
    CHECK(again.trials.front().origin == Origin::kStored);
    static_cast<void>(world.find({.confirm_again = true}));
    CHECK(world.executor.runs == before + 4);
  }
}

TEST_CASE("a search that is cut short goes on where it was, and repeats no run") {
  std::mt19937 random(3);
  World whole, cut;
  fill(whole, random, 300, 123);
  fill(cut, random, 300, 123);
  const Finding expected = whole.find();
  for (size_t round = 0; round < whole.executor.runs; ++round) {
    const Finding found = cut.find({}, 1);
    if (round + 1 < whole.executor.runs) {
      REQUIRE(found.result == SearchResult::kCannotJudge);
      REQUIRE_THAT(found.reason, Contains("--max-runs"));
    } else {
      CHECK(ids(found.suspects) == ids(expected.suspects));
      CHECK(found.confirmed);
    }
  }
  CHECK(cut.executor.runs == whole.executor.runs);
}

TEST_CASE(
    "where the run changed more than once a probe may see it, and no good revision is blamed") {
  std::mt19937 random(4);
  int seen = 0;
  for (int round = 0; round < 500; ++round) {
    World world;
    fill(world, random, 64, 40);
    for (size_t i = 8; i < 24; ++i) world.executor.nodes["r" + std::to_string(i)].value = 1;
    const Finding found = world.find();
    REQUIRE(found.confirmed);
    const size_t culprit = std::stoul(found.suspects.at(0).id.substr(1));
    REQUIRE((culprit == 8 || culprit == 40));
    seen += found.contradictions.empty() ? 0 : 1;
  }
  CHECK(seen == 500);
}

TEST_CASE("a flaky revision is never the confirmed culprit for long") {
  std::mt19937 random(5);
  int wrong = 0, refused = 0;
  for (int round = 0; round < 1000; ++round) {
    World world;
    fill(world, random, 64, 20, 0, 0);
    world.executor.random.seed(static_cast<unsigned>(round));
    for (size_t i = 20; i < 63; ++i) world.executor.nodes["r" + std::to_string(i)].flaky = 0.5;
    const Finding found = world.find({.side_runs = 12});
    wrong += found.confirmed && ids(found.suspects) != std::vector<std::string>{"r20"} ? 1 : 0;
    refused += found.confirmed ? 0 : 1;
  }
  CHECK(wrong == 0);
  CHECK(refused > 500);
}

TEST_CASE("noise that is small beside the change is no obstacle, and any other blames nobody") {
  std::mt19937 random(6);
  for (const double noise : {0.001, 0.01, 0.05, 0.3}) {
    int found = 0, refused = 0;
    for (int round = 0; round < 500; ++round) {
      World world;
      fill(world, random, 100, 1 + static_cast<size_t>(round) % 98);
      for (auto& [id, node] : world.executor.nodes) node.noise = noise;
      world.executor.random.seed(static_cast<unsigned>(round));
      const Finding finding = world.find();
      if (!finding.confirmed) {
        ++refused;
        REQUIRE_THAT(finding.reason, Contains("not deterministic"));
        continue;
      }
      ++found;
      REQUIRE(ids(finding.suspects) == scan(world));
      REQUIRE(finding.contradictions.empty());
      REQUIRE_THAT(finding.noise, Contains("loss lies up to"));
    }
    CHECK(found + refused == 500);
    if (noise <= 0.001) CHECK(found >= 490);
    if (noise >= 0.3) CHECK(refused == 500);
  }
}

TEST_CASE("a number that never repeats does not count where another tells the ends apart") {
  std::mt19937 random(8);
  World world;
  fill(world, random, 50, 31);
  world.executor.beside = true;
  const Finding finding = world.find();
  CHECK(ids(finding.suspects) == std::vector<std::string>{"r31"});
  CHECK(finding.noise ==
        "step_time differ between runs of one revision and do not count; loss repeats and tells "
        "the ends apart");
  CHECK(finding.criterion->metrics == std::vector<std::string>{"loss"});
  CHECK(world.find({.criterion = {.excluded = {"*_time"}}}).noise.empty());
}

TEST_CASE("no culprit is named by runs of others that are equal in declared paths alone") {
  std::mt19937 random(12);
  size_t named = 0, refused = 0;
  for (int round = 0; round < 2000; ++round) {
    const size_t count = std::uniform_int_distribution<size_t>(2, 60)(random);
    const size_t culprit = std::uniform_int_distribution<size_t>(1, count - 1)(random);
    const bool covered = round % 2 == 0;  // whether the culprit changes a declared path
    World world;
    fill(world, random, count, culprit);
    int state = 0;
    for (size_t i = 0; i < count; ++i) {
      const bool moves = i == culprit ? covered : std::bernoulli_distribution(0.2)(random);
      if (moves) ++state;
      world.declared["r" + std::to_string(i)] = "d" + std::to_string(state);
    }
    const Finding found = world.find({.jobs = 1 + static_cast<size_t>(round) % 4});
    const auto ran = [&](const std::string& id) {
      return world.store.all.contains("t" + std::to_string(world.executor.nodes.at(id).content));
    };
    const auto runs = std::ranges::count(found.trials, Origin::kRun, &Trial::origin);
    REQUIRE(static_cast<size_t>(runs) == world.executor.runs);
    if (found.confirmed) {
      ++named;
      REQUIRE(ids(found.suspects) == scan(world));
      REQUIRE((ran(found.suspects[0].id) && ran(found.parent->id)));
    } else {
      ++refused;
      REQUIRE_FALSE(covered);
      REQUIRE_THAT(found.reason, Contains("--path"));
    }
  }
  CHECK(named > 1000);
  CHECK(refused > 100);
}

TEST_CASE("no culprit is named whose own runs may all be noise") {
  World world;
  for (size_t i = 0; i <= 8; ++i) {
    const std::string id = "r" + std::to_string(i);
    const Node node{.value = i < 3 ? 0 : i == 3 ? 50 : 1000, .content = int(i), .noise = 1};
    world.history.push_back(world.add(id, node));
    world.declared[id] = i < 3 ? "before" : "after";
  }
  const Finding found = world.find();
  CHECK(found.result == SearchResult::kCannotJudge);
  CHECK_FALSE(found.confirmed);
  CHECK_THAT(found.reason,
             Contains("r3 was bad by a run of r8, which is equal to it in what --path"));
  CHECK_THAT(found.reason, Contains("its own run is skipped (too far off to be good"));
}

TEST_CASE("numbers that many runs have left are held once, and as numbers") {
  std::mt19937 random(13);
  World world;
  fill(world, random, 100, 31);
  world.executor.length = 10'000;
  const Finding found = world.find();
  CHECK(found.confirmed);
  CHECK(world.executor.runs > 10);
  CHECK(world.bytes < 2 * 2 * sizeof(double) * world.executor.length);
  CHECK(world.bytes > 2 * sizeof(double) * world.executor.length);
  static_cast<void>(world.find());  // of stored ones
  CHECK(world.bytes < 2 * 2 * sizeof(double) * world.executor.length);
}

TEST_CASE("values share what they hold until one of them grows") {
  measure::MetricValues a = {{1}, {0, "digest"}, {-0.0}};
  const measure::MetricValues b = a, c = {{1}, {0, "digest"}, {0.0}};
  CHECK(a.place() == b.place());
  CHECK_FALSE(a.share_with(c));
  a.push_back({NAN});
  CHECK(a.place() != b.place());
  CHECK((a.size() == 4 && b.size() == 3));
  CHECK((a[1].text == "digest" && b[1].text == "digest" && std::signbit(b[2].number)));
  measure::MetricValues again = {{1}, {0, "digest"}, {-0.0}, {NAN}};
  CHECK(again.share_with(a));
  CHECK(again.place() == a.place());
}

TEST_CASE("a culprit that is a merge is followed into its branch") {
  World world;
  for (int i = 0; i < 8; ++i) {
    world.history.push_back(
        world.add("m" + std::to_string(i), {i >= 5 ? 1 : 0, false, 100 + i, 0}));
  }
  std::vector<Revision> branch = {world.history[2]};
  for (int i = 0; i < 6; ++i) {
    branch.push_back(world.add("b" + std::to_string(i), {i >= 3 ? 1 : 0, i == 1, 200 + i, 0}));
  }
  world.branches["m5"] = {branch};
  SECTION("of which a commit is bad") {
    const Finding found = world.find();
    CHECK(ids(found.suspects) == std::vector<std::string>{"b3"});
    CHECK(found.parent->id == "b2");
    CHECK(ids(found.merges) == std::vector<std::string>{"m5"});
    CHECK(found.confirmed);
  }
  SECTION("of which none is") {
    for (int i = 0; i < 6; ++i) world.executor.nodes["b" + std::to_string(i)].value = 0;
    const Finding found = world.find();
    CHECK(ids(found.suspects) == std::vector<std::string>{"m5"});
    CHECK_THAT(found.merge_note, Contains("what it merged, b5, is good"));
  }
  SECTION("which begins before the good end and is bad there") {
    branch.front() = world.add("old", {1, false, 300, 0});
    world.branches["m5"] = {branch};
    const Finding found = world.find();
    CHECK(ids(found.suspects) == std::vector<std::string>{"m5"});
    CHECK_THAT(found.merge_note, Contains("where the branch begins, old, is bad"));
  }
}
