#include "src/replay/capture/rank_part.h"

#include <catch2/catch.hpp>

#include "format/train_ranks.h"
#include "src/engine/shard.h"
#include "tests/engine/models.h"

using namespace rlreplay;
using namespace rlreplay::replay;

using rlreplay::engine::test::odd_model;
using rlreplay::engine::test::small_model;

namespace {

constexpr int64_t kLeaf = 64;

std::vector<Layout> fitting(const ModelConfig& c) {
  std::vector<Layout> out;
  for (const int ranks : {1, 2, 3, 4, 6, 8}) {
    for (Layout layout : engine::fitting_layouts(c, ranks)) {
      for (const bool zero : {false, true}) {
        layout.zero = zero;
        out.push_back(layout);
      }
    }
  }
  return out;
}

/// How many ranks write each element of a parameter.
std::vector<int> writers(const Parameter& p, std::span<const RankParts> ranks, size_t index,
                         std::vector<ParameterPart> RankParts::*of) {
  std::vector<int> out(static_cast<size_t>(p.size()));
  for (const RankParts& rank : ranks) {
    const ParameterPart& part = (rank.*of)[index];
    for (int64_t r = part.row; r < part.row + part.rows; ++r) {
      for (int64_t c = part.column; c < part.column + part.columns; ++c) {
        ++out[static_cast<size_t>(r * p.cols + c)];
      }
    }
  }
  return out;
}

/// Five samples of 1 to 700 tokens: columns whose every number is another.
format::TrainData whole_step() {
  format::TrainData out;
  for (const uint64_t length : {200, 3, 700, 1, 129}) {
    out.sample_id.push_back(10 + out.size());
    out.offsets.push_back(out.offsets.back() + length);
  }
  format::TokenFloats floats;
  format::Column<uint8_t> mask;
  for (uint64_t t = 0; t < out.offsets.back(); ++t) {
    floats.narrow.push_back(-static_cast<float>(t));
    mask.values.push_back(t % 3 == 0);
  }
  out.log_probs = floats;
  out.advantages = floats;
  out.advantages->presence = {1, 0, 1, 1, 1};
  std::fill_n(out.advantages->narrow.begin() + 200, 3, 0.0f);  // of a sample without a value
  out.loss_mask = mask;
  out.rewards = {{1, 2, 3, 4, 5}, {}};
  out.scalars = format::NamedColumns{{"loss", "lr"}, {0.5, 1e-3}, {}};
  return out;
}

}  // namespace

TEST_CASE("the ranks of every layout write each element of weights and moments once") {
  for (const auto a : {Architecture::kLlama, Architecture::kQwen2, Architecture::kQwen3}) {
    for (const ModelConfig& c : {small_model(a), odd_model(a, a == Architecture::kQwen3)}) {
      const ParameterTable whole = make_parameters(c);
      for (const Layout& layout : fitting(c)) {
        std::vector<RankParts> ranks;
        for (int r = 0; r < layout.ranks(); ++r) ranks.push_back(rank_parts(c, layout, r));
        for (size_t i = 0; i < whole.list.size(); ++i) {
          CAPTURE(to_string(layout), whole.list[i].name);
          const std::vector<int> once(static_cast<size_t>(whole.list[i].size()), 1);
          REQUIRE(writers(whole.list[i], ranks, i, &RankParts::weights) == once);
          REQUIRE(writers(whole.list[i], ranks, i, &RankParts::moments) == once);
        }
      }
    }
  }
}

TEST_CASE("with zero the moments of a rank are a part of its weights' rows") {
  const ModelConfig c = small_model(Architecture::kQwen3);
  const Layout layout{.dp = 4, .tp = 2, .zero = true};
  for (int r = 0; r < layout.ranks(); ++r) {
    const RankParts parts = rank_parts(c, layout, r);
    int64_t moments = 0, weights = 0;
    for (const ParameterPart& p : parts.moments) moments += p.rows * p.columns;
    for (const ParameterPart& p : parts.weights) weights += p.rows * p.columns;
    CHECK(moments > 0);
    CHECK((weights > 0) == (place_of(layout, r).dp == 0));
  }
}

TEST_CASE("what ranks write of a step is the step again, put together") {
  const format::TrainData whole = whole_step();
  const ModelConfig c = odd_model(Architecture::kLlama, false);
  for (const Layout& layout : fitting(c)) {
    CAPTURE(to_string(layout));
    std::vector<format::UnitRecord> units(static_cast<size_t>(layout.ranks()));
    std::vector<format::TrainRank> ranks;
    uint64_t tokens = 0;
    for (int r = 0; r < layout.ranks(); ++r) {
      units[static_cast<size_t>(r)].path = "train/0-0/rank" + std::to_string(r) + ".h5";
      ranks.push_back({rank_part(whole, layout, r, kLeaf), &units[static_cast<size_t>(r)], {}, 0});
      const auto& part = ranks.back().data;
      CHECK(part.scalars == whole.scalars);
      CHECK(part.slices.has_value() == (layout.cp > 1));
      if (part.log_probs) tokens += part.log_probs->size();
    }
    CHECK(tokens == whole.offsets.back());  // none is written twice
    format::HeldBytes held;
    CHECK(format::join_whole(ranks, "0-0", held) == whole);
  }
}

TEST_CASE("a rank without samples writes its place and the step's numbers") {
  const format::TrainData whole = whole_step();
  const Layout layout{.dp = 8};
  size_t empty = 0;
  for (int r = 0; r < 8; ++r) {
    const format::TrainData part = rank_part(whole, layout, r, kLeaf);
    if (part.size() > 0) continue;
    ++empty;
    CHECK_FALSE(part.log_probs);
    CHECK_FALSE(
        format::to_datasets(std::make_shared<const format::TrainData>(part), "0-0").empty());
  }
  CHECK(empty == 3);
  CHECK(coordinate_datasets(layout, 3, "0-0").size() == 1);
  CHECK(coordinate_datasets({}, 0, "0-0").empty());
}
