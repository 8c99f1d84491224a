#include "src/replay/capture/state_data.h"

#include "src/replay/record/state_reader.h"

namespace rlreplay::replay {
namespace {

std::vector<uint64_t> shape_of(const Parameter& p) {
  if (p.is_vector()) return {static_cast<uint64_t>(p.cols)};
  return {static_cast<uint64_t>(p.rows), static_cast<uint64_t>(p.cols)};
}

format::Dataset counters(const std::string& group, int64_t steps) {
  auto out = format::dataset_of<double>(group + "/" + std::string(kStateCounters), DType::kF64, {1},
                                        {static_cast<double>(steps)});
  out.attributes = {{"columns", "steps"}};
  return out;
}

}  // namespace

std::vector<format::Dataset> state_datasets(engine::Backend& backend, const std::string& group) {
  const StateSpans<const float> state = backend.state();
  std::vector<format::Dataset> out;
  for (const Parameter& p : backend.parameters().list) {
    for (const StateTensor& tensor : state_tensors()) {
      const auto values = values_of(state.*tensor.read, p);
      out.push_back(format::dataset_of<float>(group + "/" + state_name(tensor, p), DType::kF32,
                                              shape_of(p), {values.begin(), values.end()}));
    }
  }
  out.push_back(counters(group, backend.steps()));
  return out;
}

void StateChain::link(const std::string& unit, int64_t number,
                      std::vector<format::Dataset>& state) {
  for (format::Dataset& tensor : state) tensor.known_hash = tensor.hash();
  std::vector<format::Dataset> whole = state;
  if (!last_.empty() && number % kFullStateEvery != 0) {
    for (size_t i = 0; i < state.size(); ++i) {
      if (state[i].dtype != DType::kF32) continue;  // the counters
      state[i].base = format::Base{unit_, *last_[i].known_hash};
      state[i].base_bytes = last_[i].bytes;
      state[i].base_owner = last_[i].owner;
    }
  }
  unit_ = unit;
  last_ = std::move(whole);
}

void read_state(const RecordedRun& run, const StepId& step, engine::Backend& backend) {
  const format::DumpReader& dump = run.dump();
  backend.write_state(read_steps(dump, step.group()), [&](const StateSpans<float>& state) {
    StateReader(dump, backend.parameters(), state).read(step.group());
  });
}

}  // namespace rlreplay::replay
