#pragma once

#include <memory>

#include "src/replay/rerun/injection.h"
#include "tests/engine/recorded_scenario.h"

/// A recorded rollout and step with one planted difference.
namespace rlreplay::replay::test {

using engine::test::Recorded;
using engine::test::Scenario;

struct Disturbed {
  Recorded recorded;
  std::optional<Planted> planted;
};

/// `undisturbed`: the samples of the same scenario without it.
inline Disturbed record_planted(const Scenario& s, const Injection& injection,
                                std::span<const Sample> undisturbed) {
  const ModelConfig config = engine::test::small_model(s.architecture);
  const ParameterTable parameters = make_parameters(config);
  std::shared_ptr<InjectingSink> sink;
  Disturbed out;
  out.recorded = engine::test::record(s, [&](engine::RecordingSink& recording) {
    sink = std::make_shared<InjectingSink>(injection, config, parameters, Layout{}, &recording);
    sink->begin(3, 0, engine::sample_shapes(undisturbed));
    return sink;
  });
  out.planted = sink->planted();
  return out;
}

inline engine::StepEvents whole(const Recorded& recorded) {
  engine::StepEvents out = recorded.step;
  out.prepend(recorded.rollout);
  return out;
}

}  // namespace rlreplay::replay::test
