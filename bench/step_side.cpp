#include <chrono>
#include <cmath>
#include <ctime>
#include <fstream>
#include <functional>
#include <string>

#include "bench/phase_clock.h"
#include "bench/step_item.h"
#include "src/engine/backend.h"

namespace rlreplay::bench {
namespace {

/// A small generator, the same on every machine.
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  /// Between -1 and 1.
  float number() { return static_cast<float>(static_cast<int32_t>(next() >> 32)) * 0x1p-31f; }
  int32_t below(int64_t n) { return static_cast<int32_t>(next() % static_cast<uint64_t>(n)); }

 private:
  uint64_t state_;
};

void set_random_weights(engine::Backend& backend) {
  backend.write_state(0, [&](const StateSpans<float>& state) {
    Numbers numbers(1);
    for (const Parameter& p : backend.parameters().list) {
      const bool norm = p.is_vector() && p.role != Role::kBias;
      const auto scale = static_cast<float>(std::sqrt(3.0 / static_cast<double>(p.cols)));
      for (int64_t i = 0; i < p.size(); ++i) {
        state.weights[static_cast<size_t>(p.offset + i)] = norm ? 1.0f : scale * numbers.number();
      }
    }
  });
}

struct Batch {
  std::vector<Sample> samples;
  std::vector<SampleTargets> targets;
};

/// Random tokens, a quarter of each sample its prompt. The past policy knew nothing: no ratio is
/// far from 1.
Batch random_batch(const StepItem& item) {
  Numbers numbers(2);
  const auto uniform = static_cast<float>(-std::log(static_cast<double>(item.model.vocab)));
  Batch out;
  for (size_t i = 0; i < item.lengths.size(); ++i) {
    Sample& s = out.samples.emplace_back();
    s.id = s.group = i;
    for (int64_t t = 0; t < item.lengths[i]; ++t)
      s.tokens.push_back(numbers.below(item.model.vocab));
    s.prompt_length = item.lengths[i] / 4;
    s.loss_mask.assign(static_cast<size_t>(s.response_length()), 1);
    SampleTargets& t = out.targets.emplace_back();
    t.advantages.assign(s.loss_mask.size(), i % 2 == 0 ? 1.0f : -1.0f);
    t.old_log_probs.assign(s.loss_mask.size(), uniform);
  }
  return out;
}

std::vector<engine::Request> random_requests(const StepItem& item) {
  Numbers numbers(3);
  std::vector<engine::Request> out;
  for (size_t i = 0; i < item.lengths.size(); ++i) {
    engine::Request& r = out.emplace_back();
    r.id = r.group = i;
    for (int64_t t = 0; t < item.lengths[i]; ++t)
      r.prompt.push_back(numbers.below(item.model.vocab));
  }
  return out;
}

/// The work of one repetition; returns its tokens.
std::function<int64_t()> make_work(const StepItem& item, engine::Backend& backend) {
  if (item.work == Work::kGenerate) {
    return [&backend, requests = random_requests(item), response = item.response] {
      engine::RolloutConfig config;
      config.max_response = response;
      int64_t tokens = 0;
      for (const auto& s : backend.generate(requests, config, {})) tokens += s.response_length();
      return tokens;
    };
  }
  return [&backend, batch = random_batch(item), micro_batch = item.micro_batch_samples] {
    engine::StepConfig config;
    config.micro_batch_samples = micro_batch;
    backend.step(batch.samples, batch.targets, config);
    int64_t tokens = 0;
    for (const auto& s : batch.samples) tokens += static_cast<int64_t>(s.tokens.size());
    return tokens;
  };
}

/// What has to happen once before times are those of a run: memory is touched, threads are awake.
StepItem warm_up(StepItem item) {
  if (item.repetitions > 1) return item;
  item.lengths.resize(1);
  item.response = std::min<int64_t>(item.response, 2);
  return item;
}

/// getrusage would count what the parent had before this program was started in its place.
double peak_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmHWM:", 0) == 0) return std::stod(line.substr(6)) / 1024;
  }
  return 0;
}

}  // namespace

SideResult run_side(const StepItem& item, const std::string& kernels, int threads, bool profile) {
  ThreadPool pool(threads);
  PhaseClock clock;
  const engine::Runtime runtime{kernels::cpu_kernels(), pool, profile ? &clock : nullptr};
  engine::BackendConfig config;
  config.model = item.model;
  config.training = item.work == Work::kStep;
  const auto backend = engine::make_backend(kernels, runtime, config);
  set_random_weights(*backend);
  make_work(warm_up(item), *backend)();
  const auto work = make_work(item, *backend);
  SideResult out;
  clock.begin();
  const std::clock_t cpu = std::clock();
  double total = 0;
  for (int i = 0; i < item.repetitions; ++i) {
    const auto start = std::chrono::steady_clock::now();
    out.tokens = work();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    out.seconds.push_back(elapsed.count());
    total += elapsed.count();
    clock.end_of_work();
  }
  out.processors = static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC / total;
  out.peak_mib = peak_mib();
  if (profile) clock.print(kernels + ", " + item.name, item.repetitions);
  return out;
}

}  // namespace rlreplay::bench
