#include "src/replay/capture/state_data.h"

#include "format/boxes.h"
#include "src/replay/capture/rank_part.h"
#include "src/replay/record/state_reader.h"

namespace rlreplay::replay {
namespace {

/// Along the dimensions of a parameter, of which a vector has one.
format::Box box_of(const std::string& name, const Parameter& p, const ParameterPart& part) {
  const auto along = [](int64_t first, int64_t length, int64_t of) {
    return format::Interval{static_cast<uint64_t>(first), static_cast<uint64_t>(length),
                            static_cast<uint64_t>(of)};
  };
  format::Box out{name, {}};
  if (!p.is_vector()) out.dims.push_back(along(part.row, part.rows, p.rows));
  out.dims.push_back(along(part.column, part.columns, p.cols));
  return out;
}

std::vector<float> elements_of(std::span<const float> values, const Parameter& p,
                               const ParameterPart& part) {
  std::vector<float> out;
  out.reserve(static_cast<size_t>(part.rows * part.columns));
  for (int64_t row = part.row; row < part.row + part.rows; ++row) {
    const auto begin = values.begin() + row * p.cols + part.column;
    out.insert(out.end(), begin, begin + part.columns);
  }
  return out;
}

format::Dataset tensor_of(std::span<const float> values, const Parameter& p,
                          const ParameterPart& part, const std::string& name,
                          const std::string& group) {
  const format::Box box = box_of(name, p, part);
  format::Dataset out = format::dataset_of<float>(group + "/" + name, DType::kF32, box.lengths(),
                                                  elements_of(values, p, part));
  if (box.lengths() != box.shape()) format::set_boxes(out.attributes, std::span(&box, 1));
  return out;
}

format::Dataset counters(const std::string& group, int64_t steps) {
  auto out = format::dataset_of<double>(group + "/" + std::string(kStateCounters), DType::kF64, {1},
                                        {static_cast<double>(steps)});
  out.attributes = {{"columns", "steps"}};
  return out;
}

}  // namespace

std::vector<format::Dataset> state_datasets(engine::Backend& backend, const std::string& group,
                                            const Layout& layout, int rank) {
  const StateSpans<const float> state = backend.state();
  const RankParts parts = rank_parts(backend.config(), layout, rank);
  std::vector<format::Dataset> out = coordinate_datasets(layout, rank, group);
  const std::vector<Parameter>& list = backend.parameters().list;
  for (size_t i = 0; i < list.size(); ++i) {
    for (const StateTensor& tensor : state_tensors()) {
      const bool weights = tensor.read == &StateSpans<const float>::weights;
      const ParameterPart& part = weights ? parts.weights[i] : parts.moments[i];
      if (part.rows == 0) continue;
      out.push_back(tensor_of(values_of(state.*tensor.read, list[i]), list[i], part,
                              state_name(tensor, list[i]), group));
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
