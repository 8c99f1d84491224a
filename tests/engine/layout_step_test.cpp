#include <catch2/catch.hpp>

#include "src/base/error.h"
#include "src/engine/schedule.h"
#include "tests/engine/delayed_group.h"
#include "tests/engine/layout_run.h"
#include "tests/environment.h"

using namespace rlreplay;
using namespace rlreplay::engine;
using namespace rlreplay::engine::test;

namespace {

// Leaves of 64 tokens: some samples have several, one ends on a border, one has a single token
// more.
const std::vector<int64_t> kLengths{37, 65, 200, 5, 129, 2, 64};

StepConfig step_config() {
  StepConfig out = grpo_step();
  out.train.leaf = 64;
  return out;
}

/// A model, its batch and what one rank makes of it.
struct Subject {
  ModelConfig config;
  Batch batch;
  LayoutRun want;

  explicit Subject(const ModelConfig& c) : config(c), batch(random_batch(c, kLengths, 3)) {
    want = run_layout(task(0), {});
  }
  LayoutTask task(int64_t micro_batch) const {
    LayoutTask out(config, batch);
    out.step = step_config();
    out.step.micro_batch_size = micro_batch;
    return out;
  }
  std::string differs(const char* layout, int64_t micro_batch) const {
    return difference(want, run_layout(task(micro_batch), parse_layout(layout)));
  }
};

}  // namespace

TEST_CASE("data-parallel ranks have the bits of one, with uneven shares and empty ones") {
  const Subject m(small_model(Architecture::kQwen2));
  for (const char* layout : {"dp=2", "dp=3", "dp=4", "dp=8", "dp=3,zero=1"}) {
    for (const int64_t micro_batch : {0, 1, 2}) {
      CAPTURE(layout, micro_batch);
      CHECK(m.differs(layout, micro_batch) == "");
    }
  }
}

TEST_CASE("tensor-parallel ranks have the bits of one") {
  const Subject m(odd_model(Architecture::kQwen3, false));
  for (const char* layout : {"tp=2", "tp=4", "tp=8", "tp=2,sp=1", "tp=4,sp=1"}) {
    CAPTURE(layout);
    CHECK(m.differs(layout, 2) == "");
  }
}

TEST_CASE("keys that several ranks hold are answered for by one") {
  ModelConfig c = odd_model(Architecture::kQwen2, true);
  c.kv_heads = 2;
  const Subject few(c);
  CHECK(few.differs("tp=8", 2) == "");
  CHECK(few.differs("tp=4,cp=2", 0) == "");
  c.heads = 24;
  c.kv_heads = 3;
  c.qk_norm = true;
  c.layers = 1;
  const Subject apart(c);
  CHECK(apart.differs("tp=2", 2) == "");
  CHECK(apart.differs("tp=8,sp=1", 2) == "");
}

TEST_CASE("context-parallel ranks have the bits of one") {
  const Subject m(small_model(Architecture::kLlama));
  for (const char* layout : {"cp=2", "cp=4"}) {
    for (const int64_t micro_batch : {0, 1}) {
      CAPTURE(layout, micro_batch);
      CHECK(m.differs(layout, micro_batch) == "");
    }
  }
}

TEST_CASE("stages of a pipeline have the bits of one, with uneven layers and tied embeddings") {
  ModelConfig c = small_model(Architecture::kQwen2);
  c.layers = 3;
  const Subject m(c);
  for (const char* layout : {"pp=2", "pp=3", "pp=3,dp=2"}) {
    for (const int64_t micro_batch : {0, 1, 2}) {
      CAPTURE(layout, micro_batch);
      CHECK(m.differs(layout, micro_batch) == "");
    }
  }
}

TEST_CASE("a schedule holds no more micro-batches than there are stages") {
  CHECK(make_schedule(0, 2) ==
        std::vector<StageAction>{{true, 0}, {false, 0}, {true, 1}, {false, 1}});
  CHECK(make_schedule(3, 0).empty());
  for (int64_t after = 0; after < 4; ++after) {
    for (int64_t count = 0; count < 6; ++count) {
      int64_t held = 0, most = 0, forward = 0, backward = 0;
      for (const StageAction& a : make_schedule(after, count)) {
        held += a.forward ? 1 : -1;
        most = std::max(most, held);
        CHECK(a.micro_batch == (a.forward ? forward++ : backward++));
      }
      CHECK((forward == count && backward == count && most == std::min(after + 1, count)));
    }
  }
}
