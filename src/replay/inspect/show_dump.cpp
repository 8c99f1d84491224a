#include "src/replay/inspect/show_dump.h"

#include <cstring>
#include <ostream>
#include <set>
#include <vector>

#include "format/group_name.h"
#include "format/train_data.h"
#include "src/base/json_line.h"
#include "src/base/json_value.h"
#include "src/base/number_text.h"
#include "src/base/text_table.h"
#include "src/base/words.h"
#include "src/replay/inspect/show_sample.h"
#include "src/replay/inspect/show_samples.h"
#include "src/replay/inspect/show_summary.h"
#include "src/replay/record/chosen_ids.h"
#include "src/replay/record/parse_step.h"

namespace rlreplay::replay {
namespace {

using format::DumpReader;
using format::StoredDataset;
using format::TrainData;
using format::UnitRecord;

/// A step's group by whatever name. Errors: kUsage.
std::string step_group(const std::string& text) {
  const auto step = parse_step(text);
  if (!step) throw Error(ErrorCode::kUsage, "--step takes a step as 3.0, not \"" + text + "\"");
  return step->group();
}

/// Sees that the dump has a rollout. Errors: kUsage with those that there are.
void check_rollout(const DumpReader& dump, int64_t rollout) {
  std::set<uint64_t> there;
  for (const UnitRecord& unit : dump.units()) {
    if (format::kind_of(unit.path) != "rollout") continue;
    for (const std::string& group : unit.groups) {
      if (const auto id = format::parse_rollout(group)) there.insert(static_cast<uint64_t>(*id));
    }
  }
  check_chosen("rollout", {static_cast<uint64_t>(rollout)}, there, "");
}

[[noreturn]] void refuse_step(const DumpReader& dump, const std::string& step) {
  std::set<StepId> there;
  for (const UnitRecord& unit : dump.units()) {
    if (format::kind_of(unit.path) != "train") continue;
    for (const std::string& group : unit.groups) {
      if (const auto id = parse_step(group)) there.insert(*id);
    }
  }
  std::string list;
  for (const StepId& id : there) list += (list.empty() ? "" : ", ") + id.name();
  throw Error(ErrorCode::kUsage, "there is no step " + step +
                                     (list.empty() ? ": no steps are recorded" : "; there are ") +
                                     one_line(list, 60));
}

/// The unit of a rank's step, or those of a rollout.
std::vector<const UnitRecord*> find_units(const DumpReader& dump, const ShowOptions& options,
                                          std::string& group) {
  if (!options.step) {
    group = std::to_string(options.rollout.value_or(0));
    if (!options.rollout) check_rollout(dump, 0);
    return dump.find("rollout", group);
  }
  group = step_group(*options.step);
  const auto units = dump.find("train", group);
  if (units.empty()) refuse_step(dump, *options.step);
  std::set<uint64_t> ranks;
  for (const UnitRecord* unit : units) {
    const int64_t rank = format::rank_of(unit->path);
    if (rank == options.rank.value_or(0)) return {unit};
    ranks.insert(static_cast<uint64_t>(rank));
  }
  check_chosen("rank", {static_cast<uint64_t>(options.rank.value_or(0))}, ranks, "");
  throw Error(ErrorCode::kInternal, "a rank that is there was not found");
}

/// A line a number of a step: "loss  0.25".
std::string scalars(const DumpReader& dump, const format::UnitReader& unit,
                    const std::string& group) {
  if (unit.find(group + "/scalars") == nullptr || unit.find(group + "/sample_id") == nullptr) {
    return "";
  }
  const TrainData data = read_train_data(dump, unit, group);
  if (!data.scalars) return "";
  std::string out;
  for (size_t i = 0; i < data.scalars->names.size(); ++i) {
    out += data.scalars->names[i] + "  " + shortest(data.scalars->values[i]) + "\n";
  }
  return out + "\n";
}

std::string datasets(const DumpReader& dump, const UnitRecord& record, const std::string& group,
                     bool json) {
  const format::UnitReader unit = dump.open_unit(record);
  TextTable table({"dataset", "dtype", "shape", "hash"});
  std::string lines;
  for (const StoredDataset& dataset : unit.datasets_of(group)) {
    const std::string name = dataset.path.substr(group.size() + 1);
    const std::string dtype(to_string(dataset.dtype));
    table.add({name, dtype, format::shape_text(dataset.shape), dataset.hash.hex()});
    lines += JsonLine()
                 .text("schema", "rlreplay.show.dataset/1")
                 .text("unit", record.path)
                 .text("dataset", name)
                 .text("dtype", dtype)
                 .json("shape", format::shape_text(dataset.shape))
                 .text("hash", dataset.hash.hex())
                 .str() +
             "\n";
  }
  return json ? lines : record.path + "\n" + scalars(dump, unit, group) + table.str();
}

std::string datasets(const DumpReader& dump, const ShowOptions& options) {
  std::string group, out;
  for (const UnitRecord* record : find_units(dump, options, group)) {
    if (!out.empty() && !options.json) out += "\n";
    out += datasets(dump, *record, group, options.json);
  }
  return out;
}

template <class T, class Use>
void numbers(std::span<const std::byte> bytes, Use use) {
  for (size_t i = 0; i + sizeof(T) <= bytes.size(); i += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + i, sizeof(T));
    use(shortest(value));
  }
}

/// Elements as text, one after another; those of types without a C++ counterpart as their bits.
template <class Use>
void elements(DType dtype, std::span<const std::byte> bytes, Use use) {
  switch (dtype) {
    case DType::kF32:
      return numbers<float>(bytes, use);
    case DType::kF64:
      return numbers<double>(bytes, use);
    case DType::kI8:
      return numbers<int8_t>(bytes, use);
    case DType::kI16:
      return numbers<int16_t>(bytes, use);
    case DType::kI32:
      return numbers<int32_t>(bytes, use);
    case DType::kI64:
      return numbers<int64_t>(bytes, use);
    case DType::kU32:
      return numbers<uint32_t>(bytes, use);
    case DType::kU64:
      return numbers<uint64_t>(bytes, use);
    default:
      return size_of(dtype) == 2 ? numbers<uint16_t>(bytes, use) : numbers<uint8_t>(bytes, use);
  }
}

/// Says which step to name, where the first that has the tensor is found: it was asked of a
/// rollout, which has none. Errors: kUsage, naming that step.
void name_step(const DumpReader& dump, const ShowOptions& options) {
  for (const UnitRecord& record : dump.units()) {
    if (format::kind_of(record.path) != "train") continue;
    const format::UnitReader unit = dump.open_unit(record);
    for (const std::string& group : record.groups) {
      const auto step = parse_step(group);
      if (!step || unit.find(group + "/" + *options.tensor) == nullptr) continue;
      throw Error(ErrorCode::kUsage, "it is a step's: name one, as --step " + step->name(),
                  *options.tensor);
    }
  }
}

[[noreturn]] void refuse_tensor(const DumpReader& dump, const format::UnitReader& unit,
                                const std::string& group, const ShowOptions& options) {
  std::vector<std::string> names;
  for (const StoredDataset& dataset : unit.datasets()) {
    if (dataset.path.starts_with(group + "/"))
      names.push_back(dataset.path.substr(group.size() + 1));
  }
  if (!options.step) name_step(dump, options);
  const auto meant = nearest(*options.tensor, names);
  throw Error(
      ErrorCode::kUsage,
      "there is no such tensor" +
          (meant ? ", did you mean " + *meant + "?"
                 : "; `" + (options.step ? "--step " + *options.step : "--rollout " + group) +
                       "` lists them"),
      unit.record().path + ": " + *options.tensor);
}

std::string tensor(const DumpReader& dump, const format::UnitReader& unit,
                   const StoredDataset* dataset, const ShowOptions& options) {
  const Buffer<std::byte> bytes = dump.read(unit, *dataset);
  const std::span<const std::byte> stored(bytes);
  if (options.json) {
    std::string list;
    elements(dataset->dtype, stored, [&](const std::string& value) {
      const bool finite = value.find_first_not_of("0123456789+-.e") == value.npos;
      list += list.empty() ? '[' : ',';
      list += finite ? value : json_quoted(value);
    });
    return JsonLine()
               .text("schema", "rlreplay.show.tensor/1")
               .text("unit", unit.record().path)
               .text("dataset", *options.tensor)
               .text("dtype", to_string(dataset->dtype))
               .json("shape", format::shape_text(dataset->shape))
               .json("values", list.empty() ? "[]" : list + "]")
               .str() +
           "\n";
  }
  std::string out = dataset->path + "  " + std::string(to_string(dataset->dtype)) + " " +
                    format::shape_text(dataset->shape) + "\n";
  if (dataset->dtype == DType::kU8 && options.tensor->ends_with("_text")) {
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return out + one_line(text, 4 * text.size()) + "\n";
  }
  std::string line;
  elements(dataset->dtype, stored, [&](const std::string& value) {
    if (line.size() + value.size() + 1 > 100) {
      out += line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + value;
  });
  return out + line + "\n";
}

/// The tensor that is asked for, as each unit of the group holds it.
std::string tensor(const DumpReader& dump, const ShowOptions& options) {
  std::string group, out;
  const auto units = find_units(dump, options, group);
  for (const UnitRecord* record : units) {
    const format::UnitReader unit = dump.open_unit(*record);
    const StoredDataset* dataset = unit.find(group + "/" + *options.tensor);
    if (dataset != nullptr) out += tensor(dump, unit, dataset, options);
    if (out.empty() && record == units.back()) refuse_tensor(dump, unit, group, options);
  }
  return out;
}

}  // namespace

void show_dump(const DumpReader& dump, const ShowOptions& options, std::ostream& out) {
  if (options.rollout) check_rollout(dump, *options.rollout);
  if (options.samples) {
    out << show_samples(dump, options);
  } else if (options.sample) {
    out << show_sample(dump, options);
  } else if (options.tensor) {
    out << tensor(dump, options);
  } else if (options.step || options.rollout) {
    out << datasets(dump, options);
  } else if (options.json) {
    print_summary_json(dump, options.incomplete, out);
  } else {
    print_summary(dump, options.temporary, out);
  }
}

}  // namespace rlreplay::replay
