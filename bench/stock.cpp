#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/random_step.h"
#include "src/base/error.h"
#include "src/engine/backend.h"

/// By how much a step's numbers differ between layouts where stock kernels compute it, and where
/// ours do: the proof that a contract is needed.
namespace rlreplay::bench {
namespace {

const std::vector<int64_t> kLengths{61, 200, 33, 128, 90, 57, 255, 16, 140, 77, 101, 180};

ModelConfig stock_model() {
  ModelConfig c;
  c.architecture = Architecture::kLlama;
  c.hidden = 256;
  c.intermediate = 768;
  c.layers = 4;
  c.heads = 8;
  c.kv_heads = 4;
  c.head_dim = 32;
  c.vocab = 2048;
  c.max_positions = 1024;
  return c;
}

/// What a step leaves, and what was computed on the way.
struct Numbers32 {
  std::vector<float> log_probs, gradients, weights;
  double loss = 0, norm = 0;
};

Numbers32 take_step(const std::string& kernels, const ModelConfig& model, int tp,
                    int64_t micro_batch) {
  ThreadPool pool(2);
  const engine::Runtime runtime{kernels::cpu_kernels(), pool};
  engine::BackendConfig config;
  config.model = model;
  config.layout.tp = tp;
  const auto backend = engine::make_backend(kernels, runtime, config);
  backend->write_state(0, [&](const StateSpans<float>& state) {
    fill_random(backend->parameters(), state.weights);
  });
  const Batch batch = random_batch(model, kLengths);
  engine::StepConfig step;
  step.micro_batch_size = micro_batch;
  step.lr = 1e-3;
  step.optimizer.clip_grad = 0;
  step.optimizer.beta1 = 0;  // the first moment is the gradient
  const engine::StepResult result = backend->step(batch.samples, batch.targets, step);
  Numbers32 out;
  for (const Scores& s : result.scores) {
    out.log_probs.insert(out.log_probs.end(), s.log_probs.begin(), s.log_probs.end());
  }
  const auto state = backend->state();
  out.gradients.assign(state.first_moments.begin(), state.first_moments.end());
  out.weights.assign(state.weights.begin(), state.weights.end());
  out.loss = result.losses.total;
  out.norm = result.grad_norm;
  return out;
}

int64_t place(float x) {
  const auto bits = std::bit_cast<int32_t>(x);
  return bits < 0 ? int64_t{INT32_MIN} - bits : bits;
}

/// Numbers of other bits, in percent; median and largest distance of those, in ulps.
struct Distance {
  double percent = 0;
  int64_t median = 0, most = 0;
};

Distance distance(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<int64_t> ulps;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i]) ulps.push_back(std::abs(place(a[i]) - place(b[i])));
  }
  if (ulps.empty()) return {};
  std::ranges::sort(ulps);
  return {100.0 * static_cast<double>(ulps.size()) / static_cast<double>(a.size()),
          ulps[(ulps.size() - 1) / 2], ulps.back()};
}

void print_row(const std::string& kernels, const std::string& name, const Numbers32& one,
               const Numbers32& other) {
  std::printf("%-9s %-16s", kernels.c_str(), name.c_str());
  for (auto numbers : {&Numbers32::log_probs, &Numbers32::gradients, &Numbers32::weights}) {
    const Distance d = distance(one.*numbers, other.*numbers);
    std::printf("  %5.1f %% %5lld %10lld", d.percent, static_cast<long long>(d.median),
                static_cast<long long>(d.most));
  }
  std::printf("  %8.1e\n", std::fabs(other.norm - one.norm) / one.norm);
  std::fflush(stdout);
}

int main() {
  const ModelConfig model = stock_model();
  const auto samples = static_cast<int64_t>(kLengths.size());
  std::printf(
      "against one rank and one batch: numbers of other bits, their median and largest "
      "distance in ulps\n%-9s %-16s  %24s  %24s  %24s  %8s\n",
      "kernels", "layout", "log-probabilities", "gradients", "weights", "norm");
  for (const std::string kernels : {"torch", "portable"}) {
    const Numbers32 one = take_step(kernels, model, 1, 0);
    print_row(kernels, "again", one, take_step(kernels, model, 1, 0));
    for (const int64_t dp : {2, 3, 4}) {
      // The gradients of dp ranks, added in their order, are those of dp micro-batches.
      print_row(kernels, "dp=" + std::to_string(dp), one,
                take_step(kernels, model, 1, samples / dp));
    }
    for (const int64_t size : {1, 2}) {
      print_row(kernels, "micro-batch " + std::to_string(size), one,
                take_step(kernels, model, 1, size));
    }
    for (const int tp : {2, 4, 8}) {
      print_row(kernels, "tp=" + std::to_string(tp), one, take_step(kernels, model, tp, 0));
    }
  }
  return 0;
}

}  // namespace
}  // namespace rlreplay::bench

int main() {
  try {
    return rlreplay::bench::main();
  } catch (const rlreplay::Error& error) {
    std::fprintf(stderr, "stock: %s\n", error.what());
    return rlreplay::exit_code(error.code());
  }
}
