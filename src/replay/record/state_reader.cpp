#include "src/replay/record/state_reader.h"

#include <cstring>

#include "src/base/error.h"

namespace rlreplay::replay {
namespace {

using In = StateSpans<const float>;
using Out = StateSpans<float>;
constexpr StateTensor kTensors[] = {{"parameters", &In::weights, &Out::weights},
                                    {"exp_avg", &In::first_moments, &Out::first_moments},
                                    {"exp_avg_sq", &In::second_moments, &Out::second_moments}};

const format::StoredDataset& find(const format::UnitReader& unit, const std::string& path) {
  if (const format::StoredDataset* dataset = unit.find(path)) return *dataset;
  throw Error(ErrorCode::kIncomplete, "the recorded state lacks " + path, unit.record().path);
}

}  // namespace

std::span<const StateTensor> state_tensors() { return kTensors; }

std::string state_name(const StateTensor& tensor, const Parameter& parameter) {
  return std::string(tensor.folder) + "/" + format::link_name(parameter.name);
}

int64_t read_steps(const format::DumpReader& dump, const format::UnitReader& unit,
                   const std::string& group) {
  const format::StoredDataset& counters = find(unit, group + "/" + std::string(kStateCounters));
  double steps = -1;
  if (counters.bytes == sizeof steps) {
    std::memcpy(&steps, dump.read(unit, counters).data(), sizeof steps);
  }
  if (!(steps >= 0 && steps < 0x1p53)) {
    throw Error(ErrorCode::kCorrupt, "the count of steps is no count", unit.record().path);
  }
  return static_cast<int64_t>(steps);
}

format::UnitReader open_state(const format::DumpReader& dump, const std::string& group) {
  const auto units = dump.find("weights", group);
  if (units.empty()) {
    throw Error(ErrorCode::kIncomplete, "the dump holds no weights before step " + group +
                                            "; capture with --weights all to load them");
  }
  return dump.open_unit(*units.front());
}

StateReader::StateReader(const format::DumpReader& dump, const ParameterTable& parameters,
                         const StateSpans<float>& to)
    : chain_(dump, [this](const format::StoredDataset& dataset) { return place_of(dataset); }) {
  for (const StateTensor& tensor : kTensors) {
    const std::span<float> values = to.*tensor.write;
    if (values.empty()) continue;
    for (const Parameter& p : parameters.list) {
      places_[state_name(tensor, p)] = std::as_writable_bytes(values_of(values, p));
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

void read_weights(const format::DumpReader& dump, const std::string& group,
                  const ParameterTable& parameters, std::span<float> weights) {
  StateReader(dump, parameters, {weights, {}, {}}).read(open_state(dump, group), group);
}

}  // namespace rlreplay::replay
