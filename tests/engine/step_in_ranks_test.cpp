#include <catch2/catch.hpp>

#include "tests/engine/layout_run.h"
#include "tests/engine/socket_run.h"

using namespace rlreplay;
using namespace rlreplay::engine;
using namespace rlreplay::engine::test;

// A whole training step, whatever carries the bytes of its ranks.
TEST_CASE("a step of ranks in one process or with sockets between them has the bits of one rank") {
  const ModelConfig config = small_model(Architecture::kQwen2);
  const Batch batch = random_batch(config, {37, 70, 5}, 3);
  LayoutTask task(config, batch);
  task.step = grpo_step();
  task.step.train.leaf = 64;
  task.step.micro_batch_samples = 1;
  task.steps = 1;
  task.threads = 2;
  const LayoutRun want = run_layout(task, {});
  for (const char* layout : {"dp=2,tp=2,sp=1", "pp=2,cp=2", "dp=2,zero=1"}) {
    CAPTURE(layout);
    task.run = run_thread_ranks;
    CHECK(difference(want, run_layout(task, parse_layout(layout))) == "");
    task.run = run_socket_threads;
    CHECK(difference(want, run_layout(task, parse_layout(layout))) == "");
  }
}
