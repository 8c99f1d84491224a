#include "src/replay/source/demo.h"

#include <catch2/catch.hpp>
#include <iostream>
#include <span>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "src/base/error.h"
#include "src/base/hash.h"
#include "src/replay/rerun/golden_run.h"
#include "src/replay/run/run.h"
#include "src/replay/source/model_source.h"
#include "tests/golden.h"
#include "tests/temporary_folder.h"

using namespace rlreplay;
using namespace rlreplay::replay;

namespace {

std::string weights_hash(std::span<const float> weights) {
  return hash_of(std::as_bytes(weights)).hex();
}

std::string weights_hash(engine::Model& model) {
  return weights_hash(std::span<const float>(model.weights().data(), model.weights().size()));
}

std::string warmed(const kernels::KernelSet& set, int threads, const DemoOptions& options) {
  ThreadPool pool(threads);
  engine::Model model = make_demo({set, pool}, options);
  return weights_hash(model);
}

/// Sees some steps of the demo as its users run it.
struct Course : RunObserver {
  std::vector<double> rewards;
  GoldenEntries bits;

  void step(StepOutcome& outcome, std::span<const Sample>,
            std::span<const SampleTargets>) override {
    REQUIRE(outcome.train_vs_rollout->different == 0);
    REQUIRE(outcome.result.grad_norm > 0);
    rewards.push_back(outcome.reward.value());
    add_golden(outcome, bits);
  }
};

Course train(int threads, int64_t steps) {
  ThreadPool pool(threads);
  const engine::Runtime runtime{kernels::cpu_kernels(), pool};
  RunOptions options;
  apply_settings(options, demo_settings());
  options.steps = steps;
  const auto demo = open_demo();
  const RunTask task(options, *demo);
  Trainer trainer(runtime, options, *demo, {});
  Course out;
  out.bits["warm weights"] = weights_hash(trainer.backend().state().weights);
  run_training(trainer, task, options, out);
  out.bits["weights after " + std::to_string(steps) + " steps"] =
      weights_hash(trainer.backend().state().weights);
  return out;
}

}  // namespace

TEST_CASE("the demo is about half right, and its reward rises within a few steps") {
  const Course course = train(2, 6);
  std::cout << "demo: reward";
  for (const double r : course.rewards) std::cout << ' ' << r;
  std::cout << '\n';
  CHECK(course.rewards.front() > 0.3);
  CHECK(course.rewards.front() < 0.5);
  CHECK(course.rewards.back() > course.rewards.front() + 0.3);
  test::check_golden(RLREPLAY_GOLDEN "/demo.txt", course.bits);
  CHECK(train(1, 6).bits == course.bits);
}

TEST_CASE("the demo's warm start has the same bits on every thread count and kernel set") {
  DemoOptions few;
  few.warm_steps = 3;
  const std::string want = warmed(kernels::reference_kernels(), 1, few);
  for (const kernels::KernelSet& set : kernels::cpu_kernel_sets()) {
    for (const int threads : {1, 2, 4}) {
      CAPTURE(set.name, threads);
      CHECK(warmed(set, threads, few) == want);
    }
  }
  DemoOptions other = few;
  other.seed += 1;
  CHECK(warmed(kernels::cpu_kernels(), 1, other) != want);
}

TEST_CASE("a saved demo is a checkpoint: the same configuration, weights and tokenizer") {
  const test::TemporaryFolder folder;
  ThreadPool pool(2);
  const engine::Runtime runtime{kernels::cpu_kernels(), pool};
  DemoOptions one_step;
  one_step.warm_steps = 1;
  engine::Model model = make_demo(runtime, one_step);
  const std::span<const float> weights(model.weights().data(), model.weights().size());
  open_demo()->save(model.parameters(), weights, folder / "saved");
  const auto saved = find_model(folder / "saved", 7);
  CHECK(same_shape(saved->config(), demo_config()));
  CHECK(saved->config().stop_ids == demo_config().stop_ids);
  engine::Model loaded(saved->config());
  saved->load(runtime, loaded.parameters(), {loaded.weights().data(), loaded.weights().size()});
  CHECK(weights_hash(loaded) == weights_hash(model));
  const std::string text = "<|start|>3+4=7<|end|>";
  CHECK(saved->tokenizer().encode(text) == open_demo()->tokenizer().encode(text));
}

TEST_CASE("the demo is found by its name, and has no chat template") {
  RunOptions options;
  const auto demo = find_model("demo", 7);
  const Tokenizer tokenizer = demo->tokenizer();
  const TaskPrompt prompt = demo->prompts(options, tokenizer)->prompt(5);
  const Prompt problem = demo_prompt(demo_task(7), 5);
  CHECK(tokenizer.decode(prompt.ids) == "<|start|>" + prompt.text);
  CHECK(prompt.text == std::get<std::string>(problem.input));
  CHECK(prompt.label == problem.label);
  try {
    demo->chat_template();
    FAIL("a chat template came from nowhere");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kIncomplete);
  }
}
