#include "src/replay/record/state_reader.h"

#include <cstring>
#include <optional>

#include "format/dataset.h"
#include "src/base/error.h"
#include "src/base/number_text.h"
#include "src/base/same_value.h"

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

/// Errors: kCorrupt for an element that no binary32 is.
void narrow(const std::string& path, const std::string& unit, const Buffer<std::byte>& wide,
            std::span<std::byte> place) {
  for (size_t i = 0; i < place.size() / sizeof(float); ++i) {
    double value = 0;
    std::memcpy(&value, wide.data() + i * sizeof value, sizeof value);
    const auto held = static_cast<float>(value);
    if (!same_value(held, value)) {
      throw Error(ErrorCode::kCorrupt,
                  "element " + std::to_string(i) + " of " + path + " is " + shortest(value) +
                      ", expected a number that binary32 holds: steps are computed in it",
                  unit);
    }
    std::memcpy(place.data() + i * sizeof held, &held, sizeof held);
  }
}

Error other_form(const std::string& path, DType dtype, std::span<const uint64_t> shape,
                 uint64_t wanted, const std::string& unit) {
  return Error(ErrorCode::kCorrupt,
               path + " is " + std::string(to_string(dtype)) + " " + format::shape_text(shape) +
                   ", expected f32 or f64 of " + std::to_string(wanted) +
                   " elements, as the recorded model has",
               unit);
}

bool has_form(DType dtype, uint64_t bytes, uint64_t wanted) {
  return (dtype == DType::kF32 || dtype == DType::kF64) && bytes == wanted * size_of(dtype);
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
  // What an earlier unit put there stays: copies are compared by their hashes.
  if (found_.plain.contains(dataset.name())) return {};
  return dataset.dtype == DType::kF32 ? place->second : std::span<std::byte>();
}

bool StateReader::is_whole(const format::StoredDataset& dataset, const std::string& unit) const {
  const auto place = places_.find(dataset.name());
  if (place == places_.end() || format::is_cut(dataset.attributes)) return false;
  const size_t wanted = place->second.size() / sizeof(float);
  if (has_form(dataset.dtype, dataset.bytes, wanted)) return true;
  throw other_form(dataset.path, dataset.dtype, dataset.shape, wanted, unit);
}

void StateReader::read_unit(const format::UnitReader& unit, const std::string& group) {
  std::vector<const format::StoredDataset*> whole;
  for (const format::StoredDataset& dataset : unit.datasets_of(group)) {
    if (is_whole(dataset, unit.record().path)) whole.push_back(&dataset);
  }
  chain_.begin(unit, group);
  for (const format::StoredDataset* dataset : whole) {
    const std::string name(dataset->name());
    const Stored stored = {dataset->dtype, dataset->hash};
    const auto earlier = found_.plain.find(name);
    const bool narrow = dataset->dtype == DType::kF32;
    if (earlier == found_.plain.end() && narrow) chain_.read(unit, *dataset);
    if (!narrow || (earlier != found_.plain.end() && earlier->second != stored)) {
      found_.others.insert(name);
    }
    found_.plain.try_emplace(name, stored);
  }
}

void StateReader::put_together(format::LogicalGroup& logical, const Records& records,
                               const std::string& group, const std::string& name,
                               std::span<std::byte> place) {
  const std::string path = group + "/" + name;
  const format::LogicalGroup::Tensor* tensor = logical.find(name);
  if (tensor == nullptr) {
    throw Error(ErrorCode::kIncomplete, "the recorded state lacks " + path, named_units(records));
  }
  const std::string& unit = records[tensor->parts.front().unit]->path;
  const size_t wanted = place.size() / sizeof(float);
  if (!has_form(tensor->dtype, tensor->bytes(), wanted)) {
    throw other_form(path, tensor->dtype, tensor->shape, wanted, unit);
  }
  chain_.forget(name);
  if (tensor->dtype == DType::kF32) return logical.read_into(name, place);
  narrow(path, unit, logical.read(name), place);
}

void StateReader::read(const std::string& group) {
  found_ = {};
  const Records records = state_units(dump_, group);
  for (const format::UnitRecord* record : records) read_unit(dump_.open_unit(*record), group);
  if (found_.plain.size() == places_.size() && found_.others.empty()) return;
  // Whole tensors went straight to their places; those that ranks cut, hold in two types or with
  // other bytes are put together here.
  format::LogicalGroup logical = format::logical_group(dump_, "weights", group);
  for (const auto& [name, place] : places_) {
    if (found_.plain.contains(name) && !found_.others.contains(name)) continue;
    put_together(logical, records, group, name, place);
  }
}

void read_weights(const format::DumpReader& dump, const std::string& group,
                  const ParameterTable& parameters, std::span<float> weights) {
  StateReader(dump, parameters, {weights, {}, {}}).read(group);
}

}  // namespace rlreplay::replay
