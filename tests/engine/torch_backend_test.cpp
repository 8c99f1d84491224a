#include <catch2/catch.hpp>
#include <map>
#include <vector>

#include "src/base/error.h"
#include "src/engine/backend_torch_library.h"
#include "src/events/table.h"
#include "tests/engine/models.h"

// The torch backend as programs get it: from its library, by name.
using namespace rlreplay;
using namespace rlreplay::engine;
using namespace rlreplay::engine::test;
using kernels::test::relative_l2;

namespace {

const std::vector<int64_t> kLengths{37, 65, 130, 5, 2};

StepConfig step_config() {
  StepConfig out = grpo_step();
  out.train.temperature = 0.8f;
  return out;
}

enum class Set { kPortable, kTorch, kTorch64 };

/// A backend with random weights.
std::unique_ptr<Backend> make(const Runtime& runtime, const ModelConfig& model, Set set,
                              bool training = true) {
  BackendConfig config;
  config.model = model;
  config.rope = kernels::Rope::kExact;
  config.training = training;
  config.float64 = set == Set::kTorch64;
  auto out = set == Set::kPortable ? make_portable_backend(runtime, config)
                                   : load_torch_backend(RLREPLAY_TORCH_LIBRARY, runtime, config);
  out->write_state(0, [&](const StateSpans<float>& state) {
    Buffer<float> weights(state.weights.size());
    fill_weights(out->parameters(), weights, 7);
    std::copy_n(weights.data(), weights.size(), state.weights.data());
  });
  return out;
}

std::vector<double> doubles(std::span<const float> values) {
  return {values.begin(), values.end()};
}

/// What steps on one batch left.
struct Outcome {
  std::vector<double> losses, norms, log_probs, entropy, terms;
  std::vector<double> update, first, second;
};

Outcome take_steps(Backend& backend, int steps, const Batch& batch, const StepConfig& config) {
  Outcome out;
  const std::vector<double> before = doubles(backend.state().weights);
  for (int i = 0; i < steps; ++i) {
    const StepResult r = backend.step(batch.samples, batch.targets, config);
    for (const double x : {r.losses.policy, r.losses.entropy, r.losses.kl, r.losses.total}) {
      out.losses.push_back(x);
    }
    out.norms.push_back(r.grad_norm);
    out.norms.push_back(static_cast<double>(r.clip_scale));
    for (const Scores& s : r.scores) {
      for (const float x : s.log_probs) out.log_probs.push_back(static_cast<double>(x));
      for (const float x : s.entropy) out.entropy.push_back(static_cast<double>(x));
    }
    for (const auto& sample : r.terms) {
      for (const TokenTerms& t : sample) {
        const double c = static_cast<double>(t.c), ce = static_cast<double>(t.ce);
        for (const double x : {t.ratio, t.policy, t.kl, t.total, c, ce}) out.terms.push_back(x);
      }
    }
  }
  out.update = doubles(backend.state().weights);
  for (size_t i = 0; i < before.size(); ++i) out.update[i] -= before[i];
  out.first = doubles(backend.state().first_moments);
  out.second = doubles(backend.state().second_moments);
  return out;
}

/// The largest relative difference of two lists of numbers.
double largest(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double out = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    out = std::max(out, std::abs(a[i] - b[i]) / std::max(1.0, std::abs(b[i])));
  }
  return out;
}

void check_near(const Outcome& got, const Outcome& want, double scale) {
  CHECK(largest(got.losses, want.losses) <= scale);
  CHECK(largest(got.norms, want.norms) <= 10 * scale);
  CHECK(relative_l2(got.log_probs, want.log_probs) <= scale);
  CHECK(relative_l2(got.entropy, want.entropy) <= scale);
  CHECK(relative_l2(got.terms, want.terms) <= 10 * scale);
  CHECK(relative_l2(got.update, want.update) <= 1e-3);
  CHECK(relative_l2(got.first, want.first) <= 10 * scale);
  CHECK(relative_l2(got.second, want.second) <= 10 * scale);
}

std::vector<Request> random_requests(const ModelConfig& c) {
  Random random(5);
  std::vector<Request> out;
  for (uint64_t i = 0; i < 7; ++i) {
    Request r{i, i / 2, {}};
    for (int64_t p = 0; p < 1 + random.below(40); ++p) {
      r.prompt.push_back(static_cast<int32_t>(random.below(c.vocab)));
    }
    out.push_back(r);
  }
  return out;
}

}  // namespace

TEST_CASE("three steps of the torch backend are near those of the portable one") {
  for (const auto architecture :
       {Architecture::kLlama, Architecture::kQwen2, Architecture::kQwen3}) {
    CAPTURE(static_cast<int>(architecture));
    const ModelConfig c = small_model(architecture);
    const Batch batch = random_batch(c, kLengths, 3);
    ThreadPool pool(2);
    const Runtime runtime{kernels::cpu_kernels(), pool};
    const auto run = [&](Set set, int steps, int64_t micro_batch) {
      StepConfig config = step_config();
      config.micro_batch_size = micro_batch;
      return take_steps(*make(runtime, c, set), steps, batch, config);
    };
    for (const int steps : {1, 3}) {
      CAPTURE(steps);
      const Outcome ours = run(Set::kPortable, steps, 0), stock = run(Set::kTorch, steps, 0);
      const Outcome exact = run(Set::kTorch64, steps, 0);
      REQUIRE(exact.norms[1] < 1);  // clipped
      // AdamW makes updates of the rounding errors of tiny gradients: they grow from step to step.
      const double scale = steps == 1 ? 1e-6 : 1e-5;
      check_near(ours, stock, scale);
      check_near(ours, exact, scale);
      check_near(run(Set::kTorch, steps, 2), stock, scale);
      check_near(run(Set::kTorch64, steps, 2), exact, 1e-8);
      if (steps > 1) continue;
      CHECK(relative_l2(ours.log_probs, exact.log_probs) <=
            kernels::test::allowed(relative_l2(stock.log_probs, exact.log_probs)));
      CHECK(relative_l2(ours.first, exact.first) <=
            kernels::test::allowed(relative_l2(stock.first, exact.first)));
    }
  }
}

TEST_CASE("without old log-probabilities the policy is its own past in both backends") {
  const ModelConfig c = small_model(Architecture::kLlama);
  Batch batch = random_batch(c, kLengths, 3);
  for (SampleTargets& t : batch.targets) t.old_log_probs.clear();
  ThreadPool pool(1);
  const Runtime runtime{kernels::cpu_kernels(), pool};
  const auto ours = make(runtime, c, Set::kPortable), stock = make(runtime, c, Set::kTorch);
  check_near(take_steps(*ours, 1, batch, step_config()),
             take_steps(*stock, 1, batch, step_config()), 1e-6);
}

TEST_CASE("both backends draw the same tokens from the same noise, whatever the slots") {
  for (const auto architecture : {Architecture::kQwen2, Architecture::kQwen3}) {
    const ModelConfig c = small_model(architecture);
    ThreadPool pool(2);
    const Runtime runtime{kernels::cpu_kernels(), pool};
    const auto ours = make(runtime, c, Set::kPortable, false);
    const auto stock = make(runtime, c, Set::kTorch, false);
    const std::vector<Request> requests = random_requests(c);
    RolloutConfig config;
    config.max_response = 30;
    config.stop_ids = {3, 70};
    config.sampling.seed = 42;
    config.sampling.temperature = 0.9f;
    for (const int64_t top_k : {0, 10}) {
      config.sampling.top_k = top_k;
      config.sampling.top_p = top_k == 0 ? 1 : 0.9;
      const auto want = ours->generate(requests, config, {});
      size_t stopped = 0;
      for (const Sample& s : want) stopped += s.response_length() < config.max_response;
      REQUIRE(stopped > 0);
      for (const int64_t slots : {1, 3, 32}) {
        config.slots = slots;
        int64_t finished = 0;
        const auto got = stock->generate(requests, config, [&](int64_t n) { finished = n; });
        REQUIRE(finished == 7);
        for (size_t i = 0; i < want.size(); ++i) {
          REQUIRE(got[i].id == want[i].id);
          REQUIRE(got[i].tokens == want[i].tokens);
          REQUIRE(got[i].loss_mask == want[i].loss_mask);
          REQUIRE(largest(doubles(got[i].rollout_log_probs), doubles(want[i].rollout_log_probs)) <=
                  1e-5);
        }
        // The cache's log-probabilities are those of the whole sequences.
        const auto scores = stock->score(got, config.sampling.temperature, slots);
        for (size_t i = 0; i < want.size(); ++i) {
          REQUIRE(largest(doubles(scores[i].log_probs), doubles(got[i].rollout_log_probs)) <= 1e-5);
        }
      }
    }
  }
}

TEST_CASE("a torch backend goes on from a state that was read") {
  const ModelConfig c = small_model(Architecture::kQwen3);
  const Batch batch = random_batch(c, kLengths, 3);
  ThreadPool pool(1);
  const Runtime runtime{kernels::cpu_kernels(), pool};
  for (const Set set : {Set::kTorch, Set::kTorch64}) {
    const auto whole = make(runtime, c, set), first = make(runtime, c, set);
    const auto second = make(runtime, c, set);
    for (int i = 0; i < 3; ++i)
      static_cast<void>(whole->step(batch.samples, batch.targets, step_config()));
    static_cast<void>(first->step(batch.samples, batch.targets, step_config()));
    const auto from = first->state();
    second->write_state(first->steps(), [&](const StateSpans<float>& to) {
      std::copy(from.weights.begin(), from.weights.end(), to.weights.begin());
      std::copy(from.first_moments.begin(), from.first_moments.end(), to.first_moments.begin());
      std::copy(from.second_moments.begin(), from.second_moments.end(), to.second_moments.begin());
    });
    for (int i = 0; i < 2; ++i)
      static_cast<void>(second->step(batch.samples, batch.targets, step_config()));
    REQUIRE(second->steps() == 3);
    const auto got = second->state(), want = whole->state();
    REQUIRE(relative_l2(got.weights, want.weights) <= 1e-6);
    REQUIRE(relative_l2(got.first_moments, want.first_moments) <= 1e-5);
    REQUIRE(relative_l2(got.second_moments, want.second_moments) <= 1e-5);
  }
}

namespace {

/// Keeps what whole events held.
class Wholes : public EventSink {
 public:
  bool wants(const Event& event) const override {
    REQUIRE(find_event(event) != nullptr);
    return true;
  }
  void rows(const Event& event, const EventView& values, const RowCoordinates&) override {
    rows_[event.tensor] += values.rows;
  }
  void whole(const Event& event, const EventView& values) override {
    REQUIRE(values.dtype == dtype_of(find_event(event)->kind));
    if (event.op != Op::kExpAvg) return;
    REQUIRE(values.stride == values.cols);
    const auto* data = reinterpret_cast<const float*>(values.data);
    moments_[event.tensor].assign(data, data + values.rows * values.cols);
  }
  void restart() override {}

  std::map<std::string, int64_t> rows_;
  std::map<std::string, std::vector<float>> moments_;
};

}  // namespace

TEST_CASE("a torch step shows its scores and its moments in the types of the table") {
  const ModelConfig c = small_model(Architecture::kQwen2);
  const Batch batch = random_batch(c, kLengths, 3);
  ThreadPool pool(2);
  Wholes sink;
  const Runtime watched{kernels::cpu_kernels(), pool, &sink};
  const Runtime alone{kernels::cpu_kernels(), pool};
  static_cast<void>(
      make(watched, c, Set::kTorch)->step(batch.samples, batch.targets, step_config()));
  const auto ours = make(alone, c, Set::kPortable);
  static_cast<void>(ours->step(batch.samples, batch.targets, step_config()));
  int64_t tokens = 0;
  for (const Sample& s : batch.samples) tokens += s.response_length();
  REQUIRE(sink.rows_["log_prob"] == tokens);
  REQUIRE(sink.rows_["entropy"] == tokens);
  // After one step from zeros the first moments are the clipped gradients by a factor.
  const std::span<const float> moments = ours->state().first_moments;
  for (const Parameter& p : ours->parameters().list) {
    const auto want = moments.subspan(static_cast<size_t>(p.offset), static_cast<size_t>(p.size()));
    CAPTURE(p.name);
    REQUIRE(sink.moments_[p.name].size() == want.size());
    // A key's bias moves no attention weight: its gradient is nothing but rounding errors.
    if (p.name.find("k_proj.bias") != std::string::npos) continue;
    CHECK(relative_l2(sink.moments_[p.name], want) <= 1e-5);
  }
}

TEST_CASE("errors of the torch backend arrive with their codes") {
  const ModelConfig c = small_model(Architecture::kLlama);
  ThreadPool pool(1);
  const Runtime runtime{kernels::cpu_kernels(), pool};
  const auto frozen = make(runtime, c, Set::kTorch, false);
  REQUIRE(frozen->name() == "torch");
  REQUIRE(frozen->state().first_moments.empty());
  REQUIRE(frozen->exact_gradients() == nullptr);
  const Batch batch = random_batch(c, {5}, 3);
  const auto code_of = [](const auto& run) {
    try {
      run();
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::kInternal;
  };
  CHECK(code_of([&] {
          static_cast<void>(frozen->step(batch.samples, batch.targets, step_config()));
        }) == ErrorCode::kUsage);
  const auto trained = make(runtime, c, Set::kTorch);
  Batch twice = random_batch(c, {5, 7}, 3);
  twice.samples[1].id = twice.samples[0].id;
  CHECK(code_of([&] {
          static_cast<void>(trained->step(twice.samples, twice.targets, step_config()));
        }) == ErrorCode::kUsage);
  const std::vector<Request> empty{{1, 0, {}}};
  CHECK(code_of([&] { static_cast<void>(frozen->generate(empty, {}, {})); }) == ErrorCode::kUsage);
}
