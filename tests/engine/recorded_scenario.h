#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "src/engine/rollout.h"
#include "src/events/name.h"
#include "src/events/recording_sink.h"
#include "tests/engine/models.h"

/// A rollout and a step on its samples, recorded.
namespace rlreplay::engine::test {

struct Scenario {
  Architecture architecture = Architecture::kQwen2;
  const kernels::KernelSet* kernels = &kernels::cpu_kernels();
  int threads = 2;
  int64_t slots = 8;
  int64_t micro_batch = 0;
  bool recompute = false;
  bool reversed = false;
  std::vector<int64_t> prompts{3, 70, 290, 9, 31};
  RecordOptions record{Granularity::kOps, true, true};
};

inline std::vector<Request> scenario_requests(const ModelConfig& c,
                                              const std::vector<int64_t>& prompts) {
  Random random(5);
  std::vector<Request> out;
  for (const int64_t length : prompts) {
    Request r{40 + out.size(), out.size() / 2, {}};
    for (int64_t p = 0; p < length; ++p) {
      r.prompt.push_back(static_cast<int32_t>(random.below(c.vocab)));
    }
    out.push_back(std::move(r));
  }
  return out;
}

inline RolloutConfig rollout_config(int64_t slots) {
  RolloutConfig out;
  out.max_response = 21;
  out.stop_ids = {3};
  out.sampling.seed = 42;
  out.slots = slots;
  return out;
}

inline StepConfig scenario_step(const Scenario& s) {
  StepConfig out;
  out.objective.eps_clip_high = 0.28;
  out.objective.kl_loss_coef = 0.05;
  out.objective.kl_loss_type = KlType::kLowVar;
  out.objective.entropy_coef = 0.01;
  out.lr = 1e-3;
  out.micro_batch_size = s.micro_batch;
  out.train.recompute = s.recompute;
  return out;
}

/// Targets that make every term of the objective move.
inline std::vector<SampleTargets> scenario_targets(std::vector<Sample>& samples) {
  Random random(9);
  std::vector<SampleTargets> out;
  for (Sample& s : samples) {
    SampleTargets t;
    s.loss_mask.back() = s.id % 2 == 0 ? 1 : 0;
    for (const float log_prob : s.rollout_log_probs) {
      t.advantages.push_back(random.normal());
      t.old_log_probs.push_back(log_prob + 0.2f * random.normal());
      t.ref_log_probs.push_back(log_prob + 0.2f * random.normal());
    }
    out.push_back(std::move(t));
  }
  return out;
}

struct Recorded {
  StepEvents rollout;
  StepEvents step;
  std::vector<Sample> samples;
  StepResult result;
};

/// `wrap`: given the recording sink, the sink that the engine sees.
template <class Wrap>
Recorded record(const Scenario& s, Wrap wrap) {
  const ModelConfig c = small_model(s.architecture);
  ThreadPool pool(s.threads);
  TrainState state(c);
  RecordingSink recording(c, state.model.parameters(), kernels::kTokenLeaf, s.record, pool);
  auto outer = wrap(recording);
  const Runtime run{*s.kernels, pool, &static_cast<EventSink&>(*outer)};
  fill_weights(state.model.parameters(), state.model.weights(), 7);
  state.model.pack(run, PackedFor::kTraining);
  const Tables tables(c, 1024);
  Recorded out;
  out.samples = rollout({run, state.model, tables.view()}, scenario_requests(c, s.prompts),
                        rollout_config(s.slots));
  out.rollout = recording.finish(3, 0);
  std::vector<SampleTargets> targets = scenario_targets(out.samples);
  if (s.reversed) {
    std::ranges::reverse(out.samples);
    std::ranges::reverse(targets);
  }
  Gradients gradients(state.model.parameters());
  out.result =
      run_step(run, state, gradients, tables.view(), out.samples, targets, scenario_step(s));
  out.step = recording.finish(3, 0);
  return out;
}

inline Recorded record(const Scenario& s) {
  return record(s, [](RecordingSink& sink) { return &sink; });
}

/// The first event that two records do not share, "" if they are equal.
inline std::string first_unequal(const StepEvents& a, const StepEvents& b) {
  if (a.events.size() != b.events.size()) return "the number of events";
  for (size_t i = 0; i < a.events.size(); ++i) {
    if (!(a.events[i] == b.events[i])) return to_string(a.events[i].event);
  }
  return a == b ? "" : "the rows";
}

}  // namespace rlreplay::engine::test
