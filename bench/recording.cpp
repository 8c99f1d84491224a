#include "bench/recording.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/median.h"
#include "format/dump_reader.h"
#include "src/replay/capture/recorder.h"
#include "src/replay/run/run.h"
#include "src/replay/source/demo.h"
#include "src/replay/source/model_source.h"
#include "src/task/find_tokenizer.h"

namespace rlreplay::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kGranularities[] = {"steps", "tensors", "ops", "ops+stats", "ops+values"};

struct Measured {
  std::vector<double> running;    // shares of the step: until the last step has ended
  std::vector<double> stored;     // until all of it is stored
  std::vector<double> processor;  // the same in processor seconds, which other work changes least
  double bytes = 0;               // a token
};

/// Seconds on the clock, and of all threads of this process.
struct Spent {
  double clock = 0, processor = 0;
};

class Watch {
 public:
  Spent spent() const {
    return {std::chrono::duration<double>(Clock::now() - clock_).count(),
            static_cast<double>(std::clock() - processor_) / CLOCKS_PER_SEC};
  }

 private:
  Clock::time_point clock_ = Clock::now();
  std::clock_t processor_ = std::clock();
};

/// One rollout of the demo, trained on again and again from the same state.
class Bench {
 public:
  explicit Bench(const RecordingArguments& arguments)
      : arguments_(arguments),
        pool_(arguments.threads),
        model_(replay::find_model(std::string(kDemo), options_.seed)) {
    replay::apply_settings(options_, replay::demo_settings());
    options_.weights = "none";
    const engine::Runtime runtime{kernels::cpu_kernels(), pool_};
    const replay::RunTask task(options_, *model_);
    trainer_.emplace(runtime, options_, *model_, replay::Workload{});
    batch_ = task.judge(0, trainer_->generate(task.requests(0), nullptr, [](int64_t) {}));
    targets_ = trainer_->targets(batch_.samples);
    const auto state = trainer_->backend().state();
    weights_.assign(state.weights.begin(), state.weights.end());
    for (const Sample& s : batch_.samples) tokens_ += static_cast<double>(s.tokens.size());
  }

  Spent without() {
    begin();
    const Watch watch;
    for (int i = 0; i < arguments_.steps; ++i)
      static_cast<void>(trainer_->step(batch_.samples, targets_, nullptr));
    return watch.spent();
  }

  void with(const std::string& granularity, const Spent& alone, Measured& out) {
    begin();
    const std::string dump = arguments_.folder + "/rlreplay-bench-recording";
    std::filesystem::remove_all(dump);
    replay::RunOptions options = options_;
    options.record = granularity;
    format::DumpPlace place(dump, false, format::DumpPlace::Writer::kResumable);
    replay::Recorder recorder(std::move(place), options, *model_, *trainer_, pool_);
    const Watch watch;
    for (int64_t i = 0; i < arguments_.steps; ++i) {
      auto outcome =
          trainer_->step(batch_.samples, targets_, recorder.step_sink(0, i, batch_.samples));
      outcome.step_id = i;
      recorder.step(outcome, batch_.samples, targets_);
    }
    out.running.push_back(watch.spent().clock / alone.clock - 1);
    recorder.finish();
    const Spent all = watch.spent();
    out.stored.push_back(all.clock / alone.clock - 1);
    out.processor.push_back(all.processor / alone.processor - 1);
    double bytes = 0;
    const auto written = format::DumpReader::open(dump);
    for (const auto& unit : written.units()) {
      bytes += static_cast<double>(unit.size);
    }
    out.bytes = bytes / (tokens_ * arguments_.steps);
    std::filesystem::remove_all(dump);
  }

 private:
  void begin() {
    trainer_->backend().write_state(0, [&](const StateSpans<float>& state) {
      std::ranges::copy(weights_, state.weights.begin());
      std::ranges::fill(state.first_moments, 0.0f);
      std::ranges::fill(state.second_moments, 0.0f);
    });
  }

  const RecordingArguments& arguments_;
  ThreadPool pool_;
  replay::RunOptions options_;
  std::unique_ptr<replay::ModelSource> model_;
  std::optional<replay::Trainer> trainer_;
  replay::RolloutBatch batch_;
  std::vector<SampleTargets> targets_;
  std::vector<float> weights_;
  double tokens_ = 0;
};

}  // namespace

void measure_recording(const RecordingArguments& arguments) {
  Bench bench(arguments);
  bench.without();
  std::map<std::string, Measured> measured;
  for (int i = 0; i < arguments.repetitions; ++i) {
    for (const char* granularity : kGranularities) {
      const Spent alone = bench.without();  // beside each, so that a busy machine slows both
      bench.with(granularity, alone, measured[granularity]);
    }
  }
  for (const char* granularity : kGranularities) {
    const Measured& m = measured[granularity];
    const char* text =
        arguments.json
            ? "{\"schema\":\"rlreplay.bench/1\",\"name\":\"record %s\",\"running\":%.4f,"
              "\"stored\":%.4f,\"processor\":%.4f,\"bytes_per_token\":%.1f,\"threads\":%d}\n"
            : "record %-11s of a step more: %6.3f while it runs, %6.3f until stored, %6.3f of "
              "processors; %8.1f bytes a token, %d threads\n";
    std::printf(text, granularity, median(m.running), median(m.stored), median(m.processor),
                m.bytes, arguments.threads);
  }
}

}  // namespace rlreplay::bench
