#include <iostream>
#include <memory>
#include <string>

#include "format/dump_writer.h"
#include "format/train_data.h"
#include "src/events/table.h"
#include "src/replay/record/event_store.h"
#include "tests/replay/planted.h"

/// A run for the tests of rlbisect: a recorded rollout and step of a small model, with one planted
/// difference.
/// usage: planted_dump write FOLDER [INJECTION]
///        planted_dump draw SEED     prints an injection that changes the weights
using namespace rlreplay;
using namespace rlreplay::engine;
using namespace rlreplay::replay;
using namespace rlreplay::replay::test;

namespace {

Scenario scenario() {
  Scenario s;
  s.threads = 1;
  return s;
}

Recorded record_with(const std::string& injection) {
  const Scenario s = scenario();
  Recorded undisturbed = record(s);
  if (injection.empty()) return undisturbed;
  return record_planted(s, parse_injection(injection), undisturbed.samples).recorded;
}

format::TrainData train_data(const Recorded& recorded) {
  format::TrainData data;
  for (const Sample& sample : recorded.samples) {
    data.sample_id.push_back(sample.id);
    data.offsets.push_back(data.offsets.back() + sample.tokens.size());
  }
  data.scalars = format::NamedColumns{
      {"grad_norm", "loss"}, {recorded.result.grad_norm, recorded.result.losses.total}, {}};
  return data;
}

void write(const std::string& folder, const std::string& injection) {
  const Recorded recorded = record_with(injection);
  auto writer = format::DumpWriter::create(folder, R"({"ranks": 1})");
  writer.append("rollout/3.h5", event_datasets(recorded.rollout, "3"));
  auto datasets = event_datasets(recorded.step, "3-0");
  const auto data = std::make_shared<const format::TrainData>(train_data(recorded));
  for (auto& dataset : format::to_datasets(data, "3-0")) datasets.push_back(std::move(dataset));
  writer.append("train/3-0/rank0.h5", datasets);
  writer.seal();
}

/// Of a random event that has floats; drawn again until the weights notice.
Injection draw(uint64_t seed) {
  const Recorded undisturbed = record(scenario());
  const StepEvents events = whole(undisturbed);
  engine::test::Random random(seed);
  for (;;) {
    const auto at = static_cast<size_t>(random.below(static_cast<int64_t>(events.events.size())));
    const EventRecord& event = events.events[at];
    const EventSpec& spec = *find_event(event.event);
    if (spec.kind == Kind::kTokens || spec.inputs.empty()) continue;
    Injection injection;
    injection.at = {3, 0, event.event};
    injection.index = random.below(event.rows * event.cols);
    injection.ulps = 1 + random.below(3);
    const auto disturbed = record_planted(scenario(), injection, undisturbed.samples).recorded;
    if (disturbed.step.total(Op::kWeight) != undisturbed.step.total(Op::kWeight)) return injection;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string verb = argc > 2 ? argv[1] : "";
  if (verb == "write") {
    write(argv[2], argc > 3 ? argv[3] : "");
  } else if (verb == "draw") {
    std::cout << to_string(draw(std::stoull(argv[2]))) << '\n';
  } else {
    std::cerr << "usage: planted_dump write FOLDER [INJECTION] | draw SEED\n";
    return 2;
  }
}
