#include "src/replay/exchange/export.h"

#include <filesystem>
#include <iostream>

#include "format/budget.h"
#include "format/foreign/safetensors_writer.h"
#include "src/base/atomic_file.h"
#include "src/base/staged_folder.h"
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
  AtomicFile file(options.output);
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
  uint64_t held = 0;
  for (const UnitRecord& record : dump.units()) {
    const std::string_view kind = format::kind_of(record.path);
    if (kind != "rollout" && kind != "train") continue;
    const format::UnitReader unit = dump.open_unit(record);
    for (const format::StoredDataset& dataset : unit.datasets()) {
      format::check_memory(record, dataset.path, held += dataset.bytes);
      const auto& bytes = contents.emplace_back(dump.read(unit, dataset));
      tensors.push_back({tensor_name(record, dataset.path),
                         dataset.dtype,
                         {dataset.shape.begin(), dataset.shape.end()},
                         {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}});
    }
  }
  write_safetensors(options.output, tensors);
}

/// A folder of files, which is there whole or not at all. Into one that holds something (--force)
/// the files are moved one by one: what else is there is somebody's.
std::vector<std::string> write_folder(const DumpReader& dump, const ExportOptions& options) {
  namespace fs = std::filesystem;
  const fs::path output = fs::absolute(options.output).lexically_normal();
  std::error_code ignored;  // the staged folder says what is wrong
  fs::create_directories((output.has_filename() ? output : output.parent_path()).parent_path(),
                         ignored);
  if (fs::exists(output) && !fs::is_directory(output)) {
    throw Error(ErrorCode::kUsage, "the files go into a folder, and this is none", options.output);
  }
  StagedFolder staged(options.output, StagedFolder::Unnamed::kRemoved);
  fs::create_directories(staged.path());
  std::vector<std::string> files = export_torch(dump, options.to, staged.path(), options.selection);
  const bool occupied = fs::exists(output) && !fs::is_empty(output);
  for (std::string& file : files) {
    const fs::path name =
        fs::path(options.output) / fs::path(file).lexically_relative(staged.path());
    std::error_code problem;
    if (occupied) fs::create_directories(name.parent_path(), problem);
    if (occupied && !problem) fs::rename(file, name, problem);
    if (problem) throw Error(ErrorCode::kEnvironment, problem.message(), name.string());
    file = name.string();
  }
  if (!occupied) staged.take_name();
  return files;
}

}  // namespace

std::vector<std::string> export_dump(const ExportOptions& options) {
  check_output(options);
  const DumpReader dump = DumpReader::open(options.dump);
  if (options.to == "jsonl") {
    write_jsonl(dump, options);
  } else if (options.to == "safetensors") {
    write_tensors(dump, options);
  } else if (options.output.ends_with(".pt")) {
    return export_torch(dump, options.to, options.output, options.selection);
  } else {
    return write_folder(dump, options);
  }
  return {options.output};
}

}  // namespace rlreplay::replay
