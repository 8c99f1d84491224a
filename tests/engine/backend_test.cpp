#include "src/engine/backend.h"

#include <catch2/catch.hpp>
#include <cstring>

#include "src/base/error.h"
#include "src/engine/backend_torch_library.h"
#include "src/engine/rotary.h"
#include "tests/engine/models.h"

using namespace rlreplay;
using namespace rlreplay::engine;
using namespace rlreplay::engine::test;

namespace {

BackendConfig backend_config(const ModelConfig& model) {
  BackendConfig out;
  out.model = model;
  return out;
}

void fill(Backend& backend, uint64_t seed) {
  backend.write_state(0, [&](const StateSpans<float>& state) {
    Buffer<float> weights(state.weights.size());
    fill_weights(backend.parameters(), weights, seed);
    std::copy_n(weights.data(), weights.size(), state.weights.data());
  });
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

}  // namespace

TEST_CASE("the portable backend is the engine's own step, score and rollout, bit by bit") {
  const ModelConfig c = small_model(Architecture::kQwen3);
  const Batch batch = random_batch(c, {37, 65, 5}, 3);
  ThreadPool pool(2);
  const Runtime runtime{kernels::cpu_kernels(), pool};
  const auto backend = make_backend("portable", runtime, backend_config(c));
  fill(*backend, 7);
  TrainState state(c);
  fill_weights(state.model.parameters(), state.model.weights(), 7);
  state.model.pack(runtime, PackedFor::kTraining);
  Gradients gradients(state.model.parameters());
  const auto table = make_rotary_table(c, kernels::Rope::kHf, 512, pool);
  for (int i = 0; i < 2; ++i) {
    run_step(runtime, state, gradients, view(table), batch.samples, batch.targets, grpo_step());
    static_cast<void>(backend->step(batch.samples, batch.targets, grpo_step()));
  }
  const auto whole = [](const Buffer<float>& b) { return std::span(b.data(), b.size()); };
  REQUIRE(backend->steps() == 2);
  REQUIRE(same_bits(backend->state().weights, whole(state.model.weights())));
  REQUIRE(same_bits(backend->state().first_moments, whole(state.moments.first)));
  REQUIRE(same_bits(backend->state().second_moments, whole(state.moments.second)));

  std::vector<const Sample*> samples;
  std::vector<float> log_probs;
  for (const Sample& s : batch.samples) samples.push_back(&s);
  for (const Scores& s : backend->score(batch.samples, 0.7f, 1)) {
    log_probs.insert(log_probs.end(), s.log_probs.begin(), s.log_probs.end());
  }
  REQUIRE(log_probs == score({runtime, state.model, view(table)}, samples, 0.7f).log_probs);

  const std::vector<Request> requests{{1, 0, {5, 6, 7}}, {2, 0, {8}}};
  RolloutConfig rolled;
  rolled.max_response = 20;
  const auto got = backend->generate(requests, rolled, {});
  const auto want = rollout({runtime, state.model, view(table)}, requests, rolled);
  for (size_t i = 0; i < want.size(); ++i) {
    REQUIRE(got[i].tokens == want[i].tokens);
    REQUIRE(got[i].rollout_log_probs == want[i].rollout_log_probs);
  }
}

TEST_CASE("a backend that cannot be made says why") {
  ThreadPool pool(1);
  const Runtime runtime{kernels::cpu_kernels(), pool};
  const BackendConfig config = backend_config(small_model(Architecture::kQwen2));
  const auto code_of = [](const auto& make) {
    try {
      make();
    } catch (const Error& error) {
      CHECK_THAT(error.what(), !Catch::Equals(""));
      return error.code();
    }
    return ErrorCode::kInternal;
  };
  CHECK(code_of([&] { make_backend("cuda", runtime, config); }) == ErrorCode::kUsage);
  // No program of the tests has the library beside it.
  CHECK_THROWS_WITH(make_backend("torch", runtime, config),
                    Catch::Contains("it was built without libtorch"));
  CHECK(code_of([&] { make_backend("torch", runtime, config); }) == ErrorCode::kEnvironment);
  CHECK_THROWS_WITH(load_torch_backend("/nowhere/librlreplay_torch.so", runtime, config),
                    Catch::Contains("the torch backend cannot be used"));
  CHECK(code_of([&] { load_torch_backend("/nowhere/librlreplay_torch.so", runtime, config); }) ==
        ErrorCode::kEnvironment);
  BackendConfig frozen = config;
  frozen.training = false;
  const Batch batch = random_batch(config.model, {5}, 3);
  CHECK(code_of([&] {
          static_cast<void>(make_backend("portable", runtime, frozen)
                                ->step(batch.samples, batch.targets, grpo_step()));
        }) == ErrorCode::kUsage);
  BackendConfig wide = config;
  wide.float64 = true;
  CHECK(code_of([&] { make_backend("portable", runtime, wide); }) == ErrorCode::kUnsupported);
}
