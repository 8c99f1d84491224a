#include "src/replay/record/state_reader.h"

#include <cstring>
#include <optional>

#include "format/logical_group.h"
#include "src/base/error.h"
#include "src/base/number_text.h"

namespace rlreplay::replay {
namespace {

using In = StateSpans<const float>;
using Out = StateSpans<float>;
constexpr StateTensor kTensors[] = {{"parameters", &In::weights, &Out::weights},
                                    {"exp_avg", &In::first_moments, &Out::first_moments},
                                    {"exp_avg_sq", &In::second_moments, &Out::second_moments}};

std::vector<const format::UnitRecord*> state_units(const format::DumpReader& dump,
                                                   const std::string& group) {
  auto units = dump.find("weights", group);
  if (!units.empty()) return units;
  throw Error(ErrorCode::kIncomplete, "the dump holds no weights before step " + group +
                                          "; capture with --weights all to load them");
}

/// Names the units, none of which holds what is looked for: "weights/3-0/rank0.h5 and 3 more".
std::string named_units(const std::vector<const format::UnitRecord*>& units) {
  const std::string& first = units.front()->path;
  return units.size() == 1 ? first : first + " and " + std::to_string(units.size() - 1) + " more";
}

}  // namespace

std::span<const StateTensor> state_tensors() { return kTensors; }

std::string state_name(const StateTensor& tensor, const Parameter& parameter) {
  return std::string(tensor.folder) + "/" + format::link_name(parameter.name);
}

int64_t read_steps(const format::DumpReader& dump, const std::string& group) {
  std::optional<double> said;
  for (const format::UnitRecord* record : state_units(dump, group)) {
    const format::UnitReader unit = dump.open_unit(*record);
    const format::StoredDataset* counters = unit.find(group + "/" + std::string(kStateCounters));
    if (counters == nullptr) continue;
    double steps = -1;
    if (counters->bytes == sizeof steps) {
      std::memcpy(&steps, dump.read(unit, *counters).data(), sizeof steps);
    }
    const std::string found = "the count of steps is " + shortest(steps);
    if (!(steps >= 0 && steps < 0x1p53)) {
      throw Error(ErrorCode::kCorrupt, found + ", expected 0 to 2^53", record->path);
    }
    if (said.value_or(steps) != steps) {
      throw Error(ErrorCode::kCorrupt, found + ", in another unit " + shortest(*said),
                  record->path);
    }
    said = steps;
  }
  if (said) return static_cast<int64_t>(*said);
  throw Error(ErrorCode::kIncomplete,
              "the recorded state lacks " + group + "/" + std::string(kStateCounters),
              named_units(state_units(dump, group)));
}

StateReader::StateReader(const format::DumpReader& dump, const ParameterTable& parameters,
                         const StateSpans<float>& to)
    : dump_(dump),
      chain_(dump, [this](const format::StoredDataset& dataset) { return place_of(dataset); }) {
  for (const StateTensor& tensor : kTensors) {
    const std::span<float> values = to.*tensor.write;
    if (values.empty()) continue;
    for (const Parameter& p : parameters.list) {
      places_[state_name(tensor, p)] = std::as_writable_bytes(values_of(values, p));
    }
  }
}

std::span<std::byte> StateReader::place_of(const format::StoredDataset& dataset) const {
  const auto place = places_.find(dataset.name());
  if (place == places_.end() || format::is_cut(dataset.attributes)) return {};
  if (place->second.size() == dataset.bytes) return place->second;
  throw Error(ErrorCode::kCorrupt, dataset.path + " is not of the model's shape");
}

void StateReader::compare(const format::UnitReader& unit, const format::StoredDataset& dataset,
                          const std::string& name, const std::string& first) const {
  const Buffer<std::byte> other = dump_.read(unit, dataset);
  const std::span<std::byte> place = places_.at(name);
  if (other.size() == place.size() && std::memcmp(other.data(), place.data(), place.size()) == 0) {
    return;
  }
  throw Error(ErrorCode::kCorrupt,
              dataset.path + " differs from that of " + first +
                  ": which of them was trained on "
                  "cannot be known",
              unit.record().path);
}

void StateReader::read_unit(const format::UnitReader& unit, const std::string& group,
                            std::map<std::string, std::string>& from) {
  chain_.begin(unit, group);
  for (const format::StoredDataset& dataset : unit.datasets_of(group)) {
    const std::string name(dataset.name());
    if (!places_.contains(name) || format::is_cut(dataset.attributes)) continue;
    const auto [first, fresh] = from.emplace(name, unit.record().path);
    if (!fresh) compare(unit, dataset, name, first->second);
    if (fresh) chain_.read(unit, dataset);
  }
}

void StateReader::read(const std::string& group) {
  const auto records = state_units(dump_, group);
  std::map<std::string, std::string> from;
  for (const format::UnitRecord* record : records) {
    read_unit(dump_.open_unit(*record), group, from);
  }
  if (from.size() == places_.size()) return;
  // Whole tensors went straight to their places; those that ranks cut are put together here.
  format::LogicalGroup logical = format::logical_group(dump_, "weights", group);
  for (const auto& [name, place] : places_) {
    if (from.contains(name)) continue;
    const format::LogicalGroup::Tensor* tensor = logical.find(name);
    if (tensor == nullptr) {
      throw Error(ErrorCode::kIncomplete, "the recorded state lacks " + group + "/" + name,
                  named_units(records));
    }
    if (tensor->dtype != DType::kF32 || tensor->bytes() != place.size()) {
      throw Error(ErrorCode::kCorrupt, group + "/" + name + " is not of the model's shape");
    }
    logical.read_into(name, place);
  }
}

void read_weights(const format::DumpReader& dump, const std::string& group,
                  const ParameterTable& parameters, std::span<float> weights) {
  StateReader(dump, parameters, {weights, {}, {}}).read(group);
}

}  // namespace rlreplay::replay
