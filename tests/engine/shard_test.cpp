#include "src/engine/shard.h"

#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "src/base/error.h"
#include "tests/engine/models.h"

using namespace rlreplay;
using namespace rlreplay::engine;
using namespace rlreplay::engine::test;

namespace {

/// Models with heads that go evenly and unevenly into ranks, tied and not.
std::vector<ModelConfig> models() {
  std::vector<ModelConfig> out;
  for (const auto a : {Architecture::kLlama, Architecture::kQwen2, Architecture::kQwen3}) {
    out.push_back(small_model(a));
    out.push_back(odd_model(a, a == Architecture::kQwen3));
    ModelConfig few = odd_model(a, true);
    few.kv_heads = 2;  // tp=8 holds each of them four times
    few.layers = 3;
    out.push_back(few);
    few.heads = 24;
    few.kv_heads = 3;  // tp=2 cuts the second one's queries
    out.push_back(few);
  }
  return out;
}

std::vector<Layout> layouts_of(const ModelConfig& c) {
  std::vector<Layout> out;
  for (const int tp : {1, 2, 4, 8}) {
    for (const int pp : {1, 2, 3}) {
      const Layout l{.tp = tp, .pp = pp};
      if (refusal_of(c, l).empty()) out.push_back(l);
    }
  }
  return out;
}

std::string refused(const auto& act) {
  try {
    act();
  } catch (const Error& e) {
    return e.what();
  }
  return "not refused";
}

}  // namespace

TEST_CASE("a layout's text is read and printed, and a wrong one is refused") {
  CHECK(parse_layout("") == Layout{});
  CHECK(parse_layout("tp=4,dp=2,ep=1") == Layout{.dp = 2, .tp = 4});
  const Layout all{.dp = 2, .tp = 4, .pp = 3, .cp = 5, .sp = true, .zero = true};
  CHECK(to_string(all) == "dp=2,tp=4,pp=3,cp=5,sp=1,zero=1");
  CHECK(parse_layout(to_string(all)) == all);
  const auto refusal = [](const char* text) {
    return refused([&] { static_cast<void>(parse_layout(text)); });
  };
  CHECK(refusal("xp=2").find("\"xp=2\" is none of dp=") != std::string::npos);
  CHECK(refusal("tp").find("has no number") != std::string::npos);
  CHECK(refusal("tp=2x").find("has no number") != std::string::npos);
  CHECK(refusal("tp=0").find("is not between 1 and 256") != std::string::npos);
  for (const char* text : {"tp=99999999999", "tp=300", "tp=-99999999999"}) {
    CHECK(refusal(text).find("is not between 1 and 256") != std::string::npos);
  }
  CHECK(refusal("tp=-").find("has no number") != std::string::npos);
  CHECK(refusal("sp=99999999999").find("is 0 or 1") != std::string::npos);
  CHECK(refusal("sp=2").find("is 0 or 1") != std::string::npos);
  CHECK(refusal("tp=2,tp=2").find("is the second of its kind") != std::string::npos);
  CHECK(refusal("dp=256,tp=256,pp=256,cp=256").find("more than 256 ranks") != std::string::npos);
  CHECK(refusal("ep=2").find("no model that is supported has experts") != std::string::npos);
}

TEST_CASE("a rank's number and its place go into each other") {
  const Layout l{.dp = 2, .tp = 2, .pp = 3, .cp = 2};
  std::set<std::string> names;
  for (int rank = 0; rank < l.ranks(); ++rank) {
    CHECK(rank_of(l, place_of(l, rank)) == rank);
    names.insert(rank_name(l, rank));
  }
  CHECK(names.size() == 24);
  CHECK(place_of(l, 1) == RankPlace{.tp = 1});
  CHECK(rank_name(l, 1) == "rank 1 (dp 0, tp 1, pp 0, cp 0)");
  CHECK(rank_name({}, 0) == "rank 0");
}

TEST_CASE("every element of every parameter has one owner, and who holds it holds it whole") {
  for (const ModelConfig& c : models()) {
    const ParameterTable whole = make_parameters(c);
    for (const Layout& layout : layouts_of(c)) {
      CAPTURE(c.heads, c.kv_heads, c.tied, to_string(layout));
      std::vector<int> owners(static_cast<size_t>(whole.elements));
      for (int rank = 0; rank < layout.ranks(); ++rank) {
        const RankPlace place = place_of(layout, rank);
        const ShardTable held = shard_parameters(c, make_shard(c, layout, place), place);
        int64_t offset = 0;
        for (size_t i = 0; i < held.slices.size(); ++i) {
          const Parameter& p = held.table.list[i];
          const Slice& s = held.slices[i];
          const Parameter& from = whole[s.whole];
          REQUIRE((p.name == from.name && p.offset == offset && p.heads == from.heads));
          REQUIRE((s.row + p.rows <= from.rows && s.column + p.cols <= from.cols));
          offset += p.size();
          for (int64_t r = 0; r < p.rows; ++r) {
            for (int64_t k = 0; k < p.cols; ++k) {
              const int64_t at = p.is_vector() ? k : r;
              if (at < s.owned.begin || at >= s.owned.end) continue;
              ++owners[static_cast<size_t>(from.offset + (s.row + r) * from.cols + s.column + k)];
            }
          }
        }
        REQUIRE(offset == held.table.elements);
      }
      REQUIRE(std::ranges::all_of(owners, [](int n) { return n == 1; }));
    }
  }
}

TEST_CASE("a rank holds the keys of its queries, and answers for those whose first query it has") {
  ModelConfig c = odd_model(Architecture::kLlama, false);
  c.heads = 24;
  c.kv_heads = 3;
  const Layout two{.tp = 2};
  const Shard low = make_shard(c, two, {.tp = 0}), high = make_shard(c, two, {.tp = 1});
  CHECK((low.heads == kernels::Range{0, 12} && high.heads == kernels::Range{12, 24}));
  CHECK((low.kv_heads == kernels::Range{0, 2} && high.kv_heads == kernels::Range{1, 3}));
  CHECK((low.kv_owned == kernels::Range{0, 2} && high.kv_owned == kernels::Range{2, 3}));
  CHECK((low.replicas && high.replicas));
  CHECK_FALSE(whole_shard(c).replicas);
}

TEST_CASE("uneven stages, samples and moments are dealt without gaps") {
  ModelConfig c = small_model(Architecture::kLlama);
  c.layers = 5;
  const Layout three{.pp = 3};
  int64_t layer = 0;
  for (int pp = 0; pp < 3; ++pp) {
    const Shard s = make_shard(c, three, {.pp = pp});
    CHECK(s.layers.begin == layer);
    CHECK(s.layer_count() >= 1);
    layer = s.layers.end;
  }
  CHECK(layer == 5);
  CHECK(dealt_samples(7, 0, 3).size() + dealt_samples(7, 1, 3).size() +
            dealt_samples(7, 2, 3).size() ==
        7);
  CHECK(dealt_samples(1, 0, 3).size() == 0);
  const ParameterTable table = make_parameters(c);
  for (const int size : {1, 2, 3, 8}) {
    int64_t end = 0;
    for (int dp = 0; dp < size; ++dp) {
      const kernels::Range range = zero_range(table, dp, size);
      CHECK(range.begin == end);
      end = range.end;
      CHECK(std::abs(range.size() - table.elements / size) < 200);
      for (const Parameter& p : table.list) {
        const int64_t into = range.end - p.offset;
        if (into <= 0 || into >= p.size()) continue;
        CHECK((!p.is_vector() && into % p.cols == 0));
      }
    }
    CHECK(end == table.elements);
  }
}

TEST_CASE("context parallelism cuts a sample between its leaves, and every position has a rank") {
  for (const int64_t leaf : {64, 256}) {
    for (const int size : {1, 2, 4}) {
      for (const int64_t length : {1, 5, 63, 64, 65, 300, 512, 1023, 1024, 1500}) {
        std::vector<int> owners(static_cast<size_t>(length));
        for (int cp = 0; cp < size; ++cp) {
          const ContextRuns runs = context_runs(length, leaf, cp, size);
          for (const kernels::Range& run : {runs.low, runs.high}) {
            CHECK((size == 1 || run.begin % leaf == 0));
            for (int64_t p = run.begin; p < run.end; ++p) ++owners[static_cast<size_t>(p)];
          }
        }
        CAPTURE(leaf, size, length);
        CHECK(std::ranges::all_of(owners, [](int n) { return n == 1; }));
      }
    }
  }
}

TEST_CASE("a layout that a model does not go into is refused with those that would do") {
  const ModelConfig c = small_model(Architecture::kLlama);  // 6 query heads: 2 segments; 2 layers
  const auto refusal = [&](const Layout& l) { return refused([&] { check_layout(c, l); }); };
  CHECK(
      refusal({.tp = 4}) ==
      "this model does not go into dp=1,tp=4,pp=1,cp=1: tp must divide 2, the segments of 6 query "
      "heads; of 4 ranks these do: dp=1,tp=1,pp=1,cp=4; dp=1,tp=1,pp=2,cp=2; dp=1,tp=2,pp=1,cp=2; "
      "dp=1,tp=2,pp=2,cp=1; dp=2,tp=1,pp=1,cp=2; dp=2,tp=1,pp=2,cp=1; dp=2,tp=2,pp=1,cp=1; "
      "dp=4,tp=1,pp=1,cp=1");
  CHECK(refusal({.pp = 3}).find("pp is larger than 2 layers") != std::string::npos);
  CHECK(refusal({.dp = 2, .tp = 2, .pp = 2, .cp = 2}) == "not refused");
}
