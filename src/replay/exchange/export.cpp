#include "src/replay/exchange/export.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <set>

#include "format/dump_place.h"
#include "format/foreign/safetensors_writer.h"
#include "src/base/atomic_file.h"
#include "src/base/input_file.h"
#include "src/base/staged_folder.h"
#include "src/base/temporary_folder.h"
#include "src/base/words.h"
#include "src/replay/exchange/jsonl.h"
#include "src/replay/record/event_units.h"
#include "src/replay/record/import_findings.h"
#include "src/replay/record/imported_samples.h"
#include "src/replay/record/recorded_run.h"

namespace rlreplay::replay {
namespace {

namespace fs = std::filesystem;
using format::DumpReader;
using format::UnitRecord;

/// Lines are a stream; anything else needs a name.
void check_stream(const ExportOptions& options) {
  if (options.to == "jsonl") return;
  const bool one_file = options.to == "safetensors";
  throw Error(ErrorCode::kUsage,
              "jsonl alone is written to standard output: name a " +
                  std::string(one_file ? "file" : "folder (or one .pt file)") + " for " +
                  options.to,
              "-o -");
}

void check_output(const ExportOptions& options) {
  if (options.output == "-") return check_stream(options);
  const fs::path output = plain_path(options.output), dump = plain_path(options.dump);
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::kUsage, why, options.output);
  };
  if (output == dump) refuse("this is the dump's own place: write the export elsewhere");
  if (std::mismatch(output.begin(), output.end(), dump.begin(), dump.end()).first == output.end()) {
    refuse("the dump lies within this folder: write the export elsewhere");
  }
  format::check_outside_dumps(options.output);
  check_unoccupied(options.output, options.force);
}

std::vector<std::string> write_jsonl(const DumpReader& dump, const ExportOptions& options,
                                     const std::optional<ChosenSamples>& chosen) {
  if (options.output == "-") {
    return export_jsonl(dump, chosen, [](const std::string& line) { std::cout << line; });
  }
  AtomicFile file(options.output);
  std::vector<std::string> left_out = export_jsonl(
      dump, chosen, [&](const std::string& line) { file.write(foreign::as_bytes(line)); });
  file.commit();
  return left_out;
}

/// The name of a unit's dataset: "rollout/3/tokens", "train/3-0/rank1/advantages".
std::string tensor_name(const UnitRecord& unit, const std::string& path) {
  const std::string kind(format::kind_of(unit.path));
  if (kind == "rollout") return kind + "/" + path;
  const size_t slash = path.find('/');
  return kind + "/" + path.substr(0, slash) + "/rank" + std::to_string(format::rank_of(unit.path)) +
         path.substr(slash);
}

/// All datasets of rollouts and training data as tensors. One unit is in memory at a time: those of
/// one lie together for each width of elements.
void write_tensors(const DumpReader& dump, const ExportOptions& options) {
  if (!options.selection.is_all()) {
    throw Error(ErrorCode::kUsage,
                "a selection of samples is written for slime, miles, relax and jsonl");
  }
  std::vector<foreign::TensorHead> heads;
  std::set<std::string> names;
  std::vector<std::pair<const UnitRecord*, std::string>> places;  // unit and dataset of each
  for (const UnitRecord& record : dump.units()) {
    const std::string_view kind = format::kind_of(record.path);
    if (kind != "rollout" && kind != "train") continue;
    const format::UnitReader unit = dump.open_unit(record);
    for (const format::StoredDataset& dataset : unit.datasets()) {
      std::string name = tensor_name(record, dataset.path);
      if (!names.insert(name).second) {
        throw Error(ErrorCode::kCorrupt,
                    "another unit holds " + name + " as well: of one step and rank there is one",
                    record.path);
      }
      heads.push_back(
          {std::move(name), dataset.dtype, {dataset.shape.begin(), dataset.shape.end()}});
      places.emplace_back(&record, dataset.path);
    }
  }
  std::optional<format::UnitReader> unit;
  foreign::write_safetensors(options.output, heads, [&](size_t i, const foreign::TensorSink& sink) {
    const auto& [record, path] = places[i];
    if (!unit || unit->record().path != record->path) {
      unit.reset();
      unit.emplace(dump.open_unit(*record));
    }
    const auto use = [&](std::span<const std::byte> piece) {
      sink({reinterpret_cast<const uint8_t*>(piece.data()), piece.size()});
    };
    const format::StoredDataset& dataset = *unit->find(path);
    if (!dataset.base) return unit->stream(dataset, use);
    const Buffer<std::byte> bytes = dump.read(*unit, dataset);
    use(bytes);
  });
}

/// Whether a name is one that frameworks give a dump: "3.pt", "eval_3.pt", "rank_0_call_2.pt".
bool is_dump_name(const fs::path& path) {
  std::string stem = path.stem().string();
  for (const std::string_view word : {"eval_", "rank_", "call_"}) {
    if (const size_t at = stem.find(word); at != stem.npos) stem.erase(at, word.size());
  }
  return path.extension() == ".pt" && !stem.empty() &&
         stem.find_first_not_of("0123456789_") == stem.npos;
}

/// Sees that a folder that is to be replaced holds nothing but dumps.
/// Errors: kUsage, naming the first other file.
void check_replaceable(const std::string& folder) {
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_directory() && !entry.is_symlink()) continue;
    if (entry.is_regular_file() && is_dump_name(entry.path())) continue;
    throw Error(ErrorCode::kUsage,
                "the folder holds " + entry.path().lexically_relative(folder).string() +
                    ", which is no file of an export and would be lost: move it away, or choose "
                    "another folder",
                folder);
  }
}

/// Files of a framework, of which there must be some.
Exported torch_files(const DumpReader& dump, const ExportOptions& options,
                     const std::string& output, const std::optional<ChosenSamples>& chosen) {
  Exported made = export_torch(dump, options.to, output, chosen);
  if (!made.files.empty()) return made;
  throw Error(ErrorCode::kUsage, "the dump holds nothing that can be written for " + options.to,
              options.dump);
}

/// A folder of files, which is there whole or not at all, in the place of an older export.
Exported write_folder(const DumpReader& dump, const ExportOptions& options,
                      const std::optional<ChosenSamples>& chosen) {
  const fs::path output = fs::absolute(options.output).lexically_normal();
  std::error_code ignored;  // the staged folder says what is wrong
  fs::create_directories((output.has_filename() ? output : output.parent_path()).parent_path(),
                         ignored);
  if (fs::exists(output)) {
    if (!fs::is_directory(output)) {
      throw Error(ErrorCode::kUsage, "the files go into a folder, and this is none",
                  options.output);
    }
    check_replaceable(options.output);
  }
  StagedFolder staged(options.output, StagedFolder::Unnamed::kRemoved);
  fs::create_directories(staged.path());
  Exported made = torch_files(dump, options, staged.path(), chosen);
  for (std::string& file : made.files) {
    const fs::path name = fs::path(file).lexically_relative(staged.path());
    file = (fs::path(options.output) / name).string();
  }
  staged.take_name(remove_tree);
  return made;
}

bool has_events(const DumpReader& dump) {
  for (const UnitRecord& record : dump.units()) {
    const std::string_view kind = format::kind_of(record.path);
    if (kind != "rollout" && kind != "train") continue;
    const format::UnitReader unit = dump.open_unit(record);  // not every unit of a group has them
    if (std::ranges::any_of(record.groups, [&](const std::string& group) {
          return replay::has_events(unit, group);
        })) {
      return true;
    }
  }
  return false;
}

/// What no export of this form has a place for.
void note_left_out(const DumpReader& dump, const ExportOptions& options,
                   std::vector<std::string>& left_out) {
  const bool frameworks = options.to != "jsonl" && options.to != "safetensors";
  const bool events = options.to == "safetensors" || (frameworks && options.selection.is_all());
  if (!events && has_events(dump)) {
    left_out.push_back(frameworks ? "events (they are those of whole steps, not of a selection)"
                                  : "events (lines of JSON have no form for them)");
  }
  std::set<std::string> states;
  size_t kept = 0;
  for (const UnitRecord& unit : dump.units()) {
    const std::string_view kind = format::kind_of(unit.path);
    if (kind == "weights") states.insert(unit.groups.begin(), unit.groups.end());
    const bool file = kind.starts_with("x-") && kind != kInputsKind && kind != kFindingsKind;
    if (file && kind.substr(2) != options.to) ++kept;
  }
  if (!states.empty()) {
    left_out.push_back(
        "weights and moments of " + counted(states.size(), "state") +
        " (rlreplay capture --resume --save writes the trained ones as a checkpoint)");
  }
  if (kept > 0) {
    left_out.push_back(counted(kept, "imported file") +
                       " as the framework wrote them (export for the framework that did)");
  }
}

Exported write(const DumpReader& dump, const ExportOptions& options) {
  if (options.to == "safetensors") {
    write_tensors(dump, options);
    return {{options.output}, {}};
  }
  const auto chosen = choose_samples(dump, options.selection, options.dump);
  if (options.to == "jsonl") return {{options.output}, write_jsonl(dump, options, chosen)};
  return options.output.ends_with(".pt") ? torch_files(dump, options, options.output, chosen)
                                         : write_folder(dump, options, chosen);
}

}  // namespace

Exported export_dump(const ExportOptions& options) {
  check_output(options);
  if (!options.steps.empty() && options.to != "jsonl" && options.to != "safetensors") {
    throw Error(ErrorCode::kUsage,
                "files of a framework hold whole rollouts: --steps are written for jsonl and "
                "safetensors");
  }
  RecordedRun run(options.dump);
  run.keep_steps(options.steps);
  const DumpReader& dump = run.dump();
  std::vector<std::string> left_out;  // before anything is written: it may refuse the dump
  note_left_out(dump, options, left_out);
  Exported made = write(dump, options);
  std::ranges::move(left_out, std::back_inserter(made.left_out));
  return made;
}

}  // namespace rlreplay::replay
