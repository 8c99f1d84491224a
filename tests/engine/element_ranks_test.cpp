#include "src/engine/element_ranks.h"

#include <catch2/catch.hpp>
#include <set>

#include "src/engine/layout_rank.h"
#include "src/events/name.h"
#include "src/events/table.h"
#include "tests/engine/layout_run.h"

using namespace rlreplay;
using namespace rlreplay::engine;
using namespace rlreplay::engine::test;

/// Whose numbers events are, held to what ranks do.
namespace {

constexpr int64_t kLeaf = 64;
const std::vector<int64_t> kLengths{37, 150, 5, 65, 130};

/// Holds each row that a rank shows of a step against ranks_of.
class ShownRows : public EventSink {
 public:
  ShownRows(const DealtStep& step, int rank) : step_(step), rank_(rank) {}
  bool wants(const Event& event) const override { return is_per_token(find_event(event)->kind); }
  void rows(const Event& event, const EventView& values, const RowCoordinates& at) override {
    for (int64_t i = 0; i < values.rows; ++i) {
      const Element row{at.sample[i], at.position[i], 0};
      std::vector<int> ranks = ranks_of(step_, {event, row, false});
      // What ranks of tp compute alike is said of the first: they are not told apart here.
      const int tp = step_.layout.tp;
      const bool found = std::ranges::any_of(ranks, [&](int r) { return r / tp == rank_ / tp; }) &&
                         std::ranges::all_of(ranks, [&](int r) { return r / tp == rank_ / tp; });
      if (!found) wrong.insert(engine::to_string(event) + " on " + rank_name(step_.layout, rank_));
      ++shown;
    }
  }
  void whole(const Event&, const EventView&) override {}
  void restart() override {}

  std::set<std::string> wrong;
  int64_t shown = 0;

 private:
  const DealtStep& step_;
  const int rank_;
};

}  // namespace

TEST_CASE("each row of a step is said to be of the ranks that show it") {
  const ModelConfig c = small_model(Architecture::kQwen3);
  const Batch batch = random_batch(c, kLengths, 3);
  const std::vector<SampleShape> shapes = sample_shapes(batch.samples);
  for (const char* text : {"dp=2,cp=2", "pp=2,tp=2", "dp=2,pp=2", "tp=2,sp=1", "dp=3,tp=2"}) {
    CAPTURE(text);
    const DealtStep dealt{c, parse_layout(text), kLeaf, shapes};
    std::mutex mutex;
    std::set<std::string> wrong;
    int64_t shown = 0;
    LayoutTask task(c, batch);
    task.step.train.leaf = kLeaf;
    task.steps = 1;
    task.sink = [&](const Ranks& r) { return std::make_unique<ShownRows>(dealt, r.world.rank()); };
    task.shown = [&](const EventSink& sink) {
      const auto& rows = dynamic_cast<const ShownRows&>(sink);
      const std::lock_guard lock(mutex);
      wrong.insert(rows.wrong.begin(), rows.wrong.end());
      shown += rows.shown;
    };
    run_layout(task, dealt.layout);
    CHECK(wrong == std::set<std::string>{});
    CHECK(shown > 1000);
  }
}

TEST_CASE("each element of a parameter is said to be of the rank that puts it into the whole") {
  const ModelConfig odd = odd_model(Architecture::kQwen2, true);
  ModelConfig shared = small_model(Architecture::kLlama);  // a head of keys that two ranks hold
  shared.kv_heads = 1;
  for (const ModelConfig& c : {odd, shared}) {
    for (const char* text : {"tp=2", "pp=2,tp=2", "dp=3,zero=1", "dp=2,tp=2,cp=2,zero=1"}) {
      CAPTURE(text);
      const DealtStep step{c, parse_layout(text), kLeaf, {}};
      const ParameterTable whole = make_parameters(c);
      const auto n = static_cast<size_t>(whole.elements);
      std::vector<float> weights(n), first(n), second(n);
      std::vector<int64_t> sums(n, -1);
      for (int rank = 0; rank < step.layout.ranks(); ++rank) {
        const RankPlace place = place_of(step.layout, rank);
        if (is_copy(step.layout, place)) continue;
        const RankPart part(c, step.layout, place);
        const auto moments = static_cast<size_t>(part.moments());
        const std::vector<float> own(static_cast<size_t>(part.elements())), none(moments);
        const std::vector<int64_t> marks(moments, rank);
        part.take(whole, {own, none, none, marks}, {weights, first, second}, sums);
      }
      int64_t wrong = 0;
      for (const Parameter& p : whole.list) {
        const Event event{Phase::kReduce, p.layer, Op::kGradient, p.name};
        for (const int64_t row : {int64_t{0}, p.rows / 2, p.rows - 1}) {
          for (const int64_t column : {int64_t{0}, p.cols / 3, p.cols - 1}) {
            const auto at = static_cast<size_t>(p.offset + row * p.cols + column);
            const std::vector<int> want{static_cast<int>(sums[at])};
            wrong += ranks_of(step, {event, Element{0, row, column}, true}) == want ? 0 : 1;
          }
        }
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("a column of a row that tp cuts is of one rank, and all columns of all of them") {
  const ModelConfig c = odd_model(Architecture::kLlama, false);  // 16 heads, 8 of keys, of 24
  const std::vector<SampleShape> shapes{{7, 2, 10}};
  const DealtStep step{c, parse_layout("tp=4"), kLeaf, shapes};
  const Event q{Phase::kForward, 0, Op::kQkv, "q"}, k{Phase::kForward, 0, Op::kQkv, "k"};
  const Event y{Phase::kForward, 0, Op::kOutput, "y"};
  const auto of = [&](const Event& event, int64_t column) {
    return ranks_of(step, {event, Element{7, 3, column}, true});
  };
  CHECK(of(q, 0) == std::vector{0});
  CHECK(of(q, 4 * 24 - 1) == std::vector{0});
  CHECK(of(q, 4 * 24) == std::vector{1});
  CHECK(of(k, 2 * 24) == std::vector{1});
  CHECK(of(k, 8 * 24 - 1) == std::vector{3});
  CHECK(of(y, 5) == std::vector{0});
  CHECK(ranks_of(step, {q, Element{7, 3, 0}, false}) == std::vector{0, 1, 2, 3});
  CHECK(ranks_of(step, {q, {}, false}) == std::vector{0, 1, 2, 3});
}

TEST_CASE("what ranks exchange before an event is named by its groups") {
  const ModelConfig c = small_model(Architecture::kLlama);
  const auto before = [&](const char* layout, const Event& event) {
    std::string out;
    const DealtStep step{c, parse_layout(layout), kLeaf, {}};
    for (const RankGroup group : exchanged_before(step, event)) out += name(group);
    return out;
  };
  const char* all = "dp=2,tp=2,pp=2,cp=2";
  CHECK(before(all, {Phase::kForward, 0, Op::kOutput, "y"}) == "tp");
  CHECK(before("dp=2,pp=2", {Phase::kForward, 0, Op::kOutput, "y"}).empty());
  CHECK(before(all, {Phase::kForward, 0, Op::kAttention, "out"}) == "cp");
  CHECK(before(all, {Phase::kForward, 0, Op::kSwiGlu, "y"}).empty());
  CHECK(before(all, {Phase::kForward, 1, Op::kInputNorm, "y"}) == "pp");
  CHECK(before(all, {Phase::kReduce, -1, Op::kGradient, "model.norm.weight"}) == "dpcp");
  CHECK(before("tp=2", {Phase::kForward, 0, Op::kGateUp, "gate"}).empty());
  CHECK(before("tp=2,sp=1", {Phase::kForward, 0, Op::kGateUp, "gate"}) == "tp");
}
