#include <cstring>

#include "src/base/error.h"
#include "src/replay/sample_data.h"

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

std::string path_of(const std::string& group, std::string_view folder, const engine::Parameter& p) {
  return group + "/" + std::string(folder) + "/" + format::link_name(p.name);
}

std::vector<uint64_t> shape_of(const engine::Parameter& p) {
  if (p.is_vector()) return {static_cast<uint64_t>(p.cols)};
  return {static_cast<uint64_t>(p.rows), static_cast<uint64_t>(p.cols)};
}

format::Dataset counters(const std::string& group, int64_t steps) {
  auto out = format::dataset_of<double>(group + "/scalars", DType::kF64, {1},
                                        {static_cast<double>(steps)});
  out.attributes = {{"columns", "steps"}};
  return out;
}

/// The bytes of a dataset of the unit; it must be there and have this many.
Buffer<std::byte> read_exactly(const format::DumpReader& dump, const format::UnitReader& unit,
                               const std::string& path, size_t bytes) {
  const format::StoredDataset* dataset = unit.find(path);
  if (dataset == nullptr) {
    throw Error(ErrorCode::kIncomplete, "the recorded state lacks " + path, unit.record().path);
  }
  if (dataset->bytes != bytes) {
    throw Error(ErrorCode::kCorrupt, path + " is not of the model's shape", unit.record().path);
  }
  return dump.read(unit, *dataset);
}

format::UnitReader open_state(const format::DumpReader& dump, const std::string& group) {
  const auto units = dump.find("weights", group);
  if (units.empty()) {
    throw Error(ErrorCode::kIncomplete, "the dump holds no weights before step " + group +
                                            "; capture with --weights all to load them");
  }
  return dump.open_unit(*units.front());
}

/// `to` may be empty: a model that only scores has no moments.
void read_part(const format::DumpReader& dump, const format::UnitReader& unit,
               const std::string& group, std::string_view folder,
               const engine::ParameterTable& parameters, std::span<float> to) {
  if (to.empty()) return;
  for (const engine::Parameter& p : parameters.list) {
    const auto values = to.subspan(static_cast<size_t>(p.offset), static_cast<size_t>(p.size()));
    const auto bytes = read_exactly(dump, unit, path_of(group, folder, p), values.size_bytes());
    std::memcpy(values.data(), bytes.data(), bytes.size());
  }
}

}  // namespace

std::vector<format::Dataset> state_datasets(engine::Backend& backend, const std::string& group) {
  const In state = backend.state();
  std::vector<format::Dataset> out;
  for (const engine::Parameter& p : backend.parameters().list) {
    for (const Part& part : kParts) {
      const auto values =
          (state.*part.read).subspan(static_cast<size_t>(p.offset), static_cast<size_t>(p.size()));
      out.push_back(format::dataset_of<float>(path_of(group, part.folder, p), DType::kF32,
                                              shape_of(p), {values.begin(), values.end()}));
    }
  }
  out.push_back(counters(group, backend.steps()));
  return out;
}

void read_state(const format::DumpReader& dump, const std::string& group,
                engine::Backend& backend) {
  const format::UnitReader unit = open_state(dump, group);
  double steps = 0;
  const auto count = read_exactly(dump, unit, group + "/scalars", sizeof steps);
  std::memcpy(&steps, count.data(), sizeof steps);
  if (!(steps >= 0 && steps < 0x1p53)) {
    throw Error(ErrorCode::kCorrupt, "the count of steps is no count", unit.record().path);
  }
  backend.write_state(static_cast<int64_t>(steps), [&](const Out& state) {
    for (const Part& part : kParts) {
      read_part(dump, unit, group, part.folder, backend.parameters(), state.*part.write);
    }
  });
}

void read_weights(const format::DumpReader& dump, const std::string& group,
                  const engine::ParameterTable& parameters, std::span<float> weights) {
  read_part(dump, open_state(dump, group), group, kParts[0].folder, parameters, weights);
}

}  // namespace rlreplay::replay
