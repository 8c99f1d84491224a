#include <catch2/catch.hpp>

#include "src/engine/backend.h"
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
  task.step.micro_batch_size = 1;
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

// The thread sanitizer's, which the many layouts of layout_rollout_test would keep for too long.
TEST_CASE("a rollout and its scores, of ranks that are threads, have the bits of one rank") {
  const ModelConfig c = small_model(Architecture::kQwen3);
  const std::vector<Request> requests{{1, 0, {5, 7, 9}}, {2, 0, {11}}, {3, 1, {13, 2}}};
  RolloutConfig config;
  config.sampling.seed = 3;
  config.max_response = 4;
  const auto run = [&](const char* layout) {
    ThreadPool pool(4);
    const Runtime runtime{kernels::cpu_kernels(), pool};
    const auto backend =
        make_backend("portable", runtime, {.model = c, .layout = parse_layout(layout)});
    backend->write_state(
        0, [&](const StateSpans<float>& state) { fill_weights(backend->parameters(), state, 7); });
    int64_t finished = 0;
    std::string out;
    const auto samples = backend->generate(requests, config, [&](int64_t n) { finished = n; });
    for (const Sample& s : samples) out += bytes(s.tokens) + bytes(s.rollout_log_probs);
    for (const Scores& s : backend->score(samples, 1, 1)) out += bytes(s.entropy);
    CHECK(finished == 3);
    return out;
  };
  const std::string want = run("");
  for (const char* layout : {"dp=2,tp=2", "pp=2,cp=2"}) CHECK((run(layout) == want));
}
