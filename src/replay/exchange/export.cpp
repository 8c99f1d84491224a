#include "src/replay/exchange/export.h"

#include <filesystem>
#include <iostream>

#include "format/foreign/atomic_file.h"
#include "format/foreign/safetensors_writer.h"
#include "src/replay/exchange/jsonl.h"

namespace rlreplay::replay {
namespace {

using foreign::StoredTensor;
using format::DumpReader;
using format::UnitRecord;

void check_output(const ExportOptions& options) {
  namespace fs = std::filesystem;
  if (options.force || options.output == "-" || !fs::exists(options.output)) return;
  if (fs::is_directory(options.output) && fs::is_empty(options.output)) return;
  throw Error(ErrorCode::kUsage, "it is there already; --force replaces it", options.output);
}

void write_jsonl(const DumpReader& dump, const ExportOptions& options) {
  if (options.output == "-") {
    return export_jsonl(dump, options.selection,
                        [](const std::string& line) { std::cout << line; });
  }
  foreign::AtomicFile file(options.output);
  export_jsonl(dump, options.selection,
               [&](const std::string& line) { file.write(foreign::as_bytes(line)); });
  file.commit();
}

/// The name of a unit's dataset: "rollout/3/tokens", "train/3-0/rank1/advantages".
std::string tensor_name(const UnitRecord& unit, const std::string& path) {
  const std::string kind(format::kind_of(unit.path));
  if (kind == "rollout") return kind + "/" + path;
  const size_t slash = path.find('/');
  return kind + "/" + path.substr(0, slash) + "/rank" + std::to_string(format::rank_of(unit.path)) +
         path.substr(slash);
}

void write_tensors(const DumpReader& dump, const ExportOptions& options) {
  if (!options.selection.is_all()) {
    throw Error(ErrorCode::kUsage, "a selection of samples is written for slime, miles and jsonl");
  }
  std::vector<Buffer<std::byte>> contents;
  std::vector<StoredTensor> tensors;
  for (const UnitRecord& record : dump.units()) {
    const std::string_view kind = format::kind_of(record.path);
    if (kind != "rollout" && kind != "train") continue;
    const format::UnitReader unit = dump.open_unit(record);
    for (const format::StoredDataset& dataset : unit.datasets()) {
      const auto& bytes = contents.emplace_back(dump.read(unit, dataset));
      tensors.push_back({tensor_name(record, dataset.path),
                         dataset.dtype,
                         {dataset.shape.begin(), dataset.shape.end()},
                         {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}});
    }
  }
  write_safetensors(options.output, tensors);
}

}  // namespace

std::vector<std::string> export_dump(const ExportOptions& options) {
  check_output(options);
  const DumpReader dump = DumpReader::open(options.dump);
  if (options.to == "jsonl") {
    write_jsonl(dump, options);
  } else if (options.to == "safetensors") {
    write_tensors(dump, options);
  } else {
    return export_torch(dump, options.to, options.output, options.selection);
  }
  return {options.output};
}

}  // namespace rlreplay::replay
