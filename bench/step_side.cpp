#include <chrono>
#include <ctime>
#include <fstream>
#include <functional>
#include <string>

#include "bench/phase_clock.h"
#include "bench/random_step.h"
#include "bench/step_item.h"
#include "src/engine/backend.h"

namespace rlreplay::bench {
namespace {

void set_random_weights(engine::Backend& backend) {
  backend.write_state(
      0, [&](const StateSpans<float>& state) { fill_random(backend.parameters(), state.weights); });
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
  return [&backend, batch = random_batch(item.model, item.lengths),
          micro_batch = item.micro_batch_size] {
    engine::StepConfig config;
    config.micro_batch_size = micro_batch;
    static_cast<void>(backend.step(batch.samples, batch.targets, config));
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
