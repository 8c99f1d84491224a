#include "src/replay/state_data.h"

#include <cstring>

#include "src/base/error.h"

namespace rlreplay::replay {
namespace {

/// The three tensors that a step changes of each parameter.
struct Part {
  std::string_view folder;
  std::span<const float> engine::StateSpans<const float>::*read;
  std::span<float> engine::StateSpans<float>::*write;
};

using In = engine::StateSpans<const float>;
using Out = engine::StateSpans<float>;
constexpr Part kParts[] = {{"parameters", &In::weights, &Out::weights},
                           {"exp_avg", &In::first_moments, &Out::first_moments},
                           {"exp_avg_sq", &In::second_moments, &Out::second_moments}};
constexpr char kCounters[] = "scalars";

std::string name_of(std::string_view folder, const engine::Parameter& p) {
  return std::string(folder) + "/" + format::link_name(p.name);
}

std::vector<uint64_t> shape_of(const engine::Parameter& p) {
  if (p.is_vector()) return {static_cast<uint64_t>(p.cols)};
  return {static_cast<uint64_t>(p.rows), static_cast<uint64_t>(p.cols)};
}

template <class T>
std::span<T> part_of(std::span<T> values, const engine::Parameter& p) {
  return values.subspan(static_cast<size_t>(p.offset), static_cast<size_t>(p.size()));
}

format::Dataset counters(const std::string& group, int64_t steps) {
  auto out = format::dataset_of<double>(group + "/" + kCounters, DType::kF64, {1},
                                        {static_cast<double>(steps)});
  out.attributes = {{"columns", "steps"}};
  return out;
}

const format::StoredDataset& find(const format::UnitReader& unit, const std::string& path) {
  if (const format::StoredDataset* dataset = unit.find(path)) return *dataset;
  throw Error(ErrorCode::kIncomplete, "the recorded state lacks " + path, unit.record().path);
}

}  // namespace

int64_t read_steps(const format::DumpReader& dump, const format::UnitReader& unit,
                   const std::string& group) {
  const format::StoredDataset& counters = find(unit, group + "/" + kCounters);
  double steps = -1;
  if (counters.bytes == sizeof steps) {
    std::memcpy(&steps, dump.read(unit, counters).data(), sizeof steps);
  }
  if (!(steps >= 0 && steps < 0x1p53)) {
    throw Error(ErrorCode::kCorrupt, "the count of steps is no count", unit.record().path);
  }
  return static_cast<int64_t>(steps);
}

std::vector<format::Dataset> state_datasets(engine::Backend& backend, const std::string& group) {
  const In state = backend.state();
  std::vector<format::Dataset> out;
  for (const engine::Parameter& p : backend.parameters().list) {
    for (const Part& part : kParts) {
      const auto values = part_of(state.*part.read, p);
      out.push_back(format::dataset_of<float>(group + "/" + name_of(part.folder, p), DType::kF32,
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

format::UnitReader open_state(const format::DumpReader& dump, const std::string& group) {
  const auto units = dump.find("weights", group);
  if (units.empty()) {
    throw Error(ErrorCode::kIncomplete, "the dump holds no weights before step " + group +
                                            "; capture with --weights all to load them");
  }
  return dump.open_unit(*units.front());
}

StateReader::StateReader(const format::DumpReader& dump, const engine::ParameterTable& parameters,
                         const Out& to)
    : chain_(dump, [this](const format::StoredDataset& dataset) { return place_of(dataset); }) {
  for (const Part& part : kParts) {
    const std::span<float> values = to.*part.write;
    if (values.empty()) continue;
    for (const engine::Parameter& p : parameters.list) {
      places_[name_of(part.folder, p)] = std::as_writable_bytes(part_of(values, p));
    }
  }
}

std::span<std::byte> StateReader::place_of(const format::StoredDataset& dataset) const {
  const auto place = places_.find(dataset.path.substr(dataset.path.find('/') + 1));
  if (place == places_.end()) return {};
  if (place->second.size() == dataset.bytes) return place->second;
  throw Error(ErrorCode::kCorrupt, dataset.path + " is not of the model's shape");
}

void StateReader::read(const format::UnitReader& unit, const std::string& group) {
  chain_.begin(unit, group);
  for (const auto& place : places_) chain_.read(unit, find(unit, group + "/" + place.first));
}

void read_state(const format::DumpReader& dump, const std::string& group,
                engine::Backend& backend) {
  const format::UnitReader unit = open_state(dump, group);
  backend.write_state(read_steps(dump, unit, group), [&](const Out& state) {
    StateReader(dump, backend.parameters(), state).read(unit, group);
  });
}

void read_weights(const format::DumpReader& dump, const std::string& group,
                  const engine::ParameterTable& parameters, std::span<float> weights) {
  StateReader(dump, parameters, {weights, {}, {}}).read(open_state(dump, group), group);
}

}  // namespace rlreplay::replay
