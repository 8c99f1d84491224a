#include "src/replay/doctor/weight_versions.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "format/dump_files.h"
#include "format/foreign/checkpoint_config.h"
#include "format/foreign/safetensors_writer.h"
#include "format/logical_group.h"
#include "src/base/error.h"
#include "src/replay/doctor/checkpoint_rules.h"
#include "src/replay/record/parse_step.h"
#include "src/replay/record/state_reader.h"

namespace rlreplay::replay {
namespace {

namespace fs = std::filesystem;

/// A checkpoint that is not whole is nothing to hold weights against. Errors: kCorrupt.
WeightFiles open_whole(const std::string& path) {
  WeightFiles out = WeightFiles::open(path);
  Diagnosis diagnosis;
  check_files(out, diagnosis);
  check_index(out, diagnosis);
  for (const DoctorFinding& finding : diagnosis.findings()) {
    if (!finding.damaged) continue;
    throw Error(ErrorCode::kCorrupt,
                "the reference cannot be read: " + finding.where + ": " + finding.observed, path);
  }
  return out;
}

/// The steps of a dump's weights, from the one that is asked for, or the last, backwards.
std::vector<StepId> chosen_states(const RecordedRun& dump, const std::string& step) {
  std::vector<StepId> out = dump.states();
  std::ranges::reverse(out);
  if (out.empty()) {
    throw Error(ErrorCode::kIncomplete,
                "the dump holds no weights to compare with; capture with --weights all",
                dump.path());
  }
  if (step.empty()) return out;
  const auto asked = parse_step(step);
  if (!asked) {
    throw Error(ErrorCode::kUsage, "a step has a name as 3.0, found " + step, "--step");
  }
  const auto found = std::ranges::find(out, *asked);
  if (found == out.end()) {
    throw Error(ErrorCode::kIncomplete,
                "the dump holds no weights before step " + asked->name() + ", but before " +
                    out.back().name() + " to " + out.front().name(),
                dump.path());
  }
  out.erase(out.begin(), found);
  return out;
}

}  // namespace

WeightVersions::WeightVersions(const WeightReference& reference) {
  if (format::looks_like_dump(reference.path)) {
    add_dump(reference);
  } else if (!reference.step.empty()) {
    throw Error(ErrorCode::kUsage, "--step chooses the weights of a dump; --ref is none",
                reference.path);
  } else {
    sources_.push_back({reference.path, std::nullopt});
  }
  for (const std::string& path : reference.earlier) {
    static_cast<void>(open_whole(path));  // before any work is done
    sources_.push_back({path, std::nullopt});
  }
  expected_ = open(sources_.front(), {});
}

void WeightVersions::add_dump(const WeightReference& reference) {
  dump_.emplace(reference.path);
  for (const StepId& step : chosen_states(*dump_, reference.step)) {
    sources_.push_back({reference.path, step});
  }
  folder_.emplace("rlreplay-doctor", TemporaryFolder::Left::kRemoved);
}

std::optional<StepId> WeightVersions::step() const { return sources_.front().step; }

std::string WeightVersions::earlier_name(size_t number) const {
  const Source& source = sources_.at(number + 1);
  return source.step ? "before step " + source.step->name() : source.path;
}

WeightFiles WeightVersions::open_earlier(size_t number, const std::set<std::string>& names) const {
  const Source& source = sources_.at(number + 1);
  WeightFiles out = open(source, names);
  // It is mapped: its place is free for the next one.
  if (source.step) remove_tree((fs::path(folder_->path()) / source.step->group()).string());
  return out;
}

WeightFiles WeightVersions::open(const Source& source, const std::set<std::string>& names) const {
  return source.step ? unpack(*source.step, names) : open_whole(source.path);
}

WeightFiles WeightVersions::unpack(const StepId& step, const std::set<std::string>& names) const {
  const ModelConfig model = dump_->config().model;
  std::vector<foreign::TensorHead> heads;
  for (foreign::ExpectedTensor& tensor : foreign::expected_tensors(model)) {
    if (!names.empty() && !names.contains(tensor.name)) continue;
    heads.push_back({std::move(tensor.name), DType::kF32, std::move(tensor.shape)});
  }
  const fs::path folder = fs::path(folder_->path()) / step.group();
  fs::create_directory(folder);
  std::ofstream(folder / "config.json") << foreign::config_json(model);
  format::LogicalGroup group = format::logical_group(dump_->dump(), "weights", step.group());
  const auto read = [&](size_t i, const foreign::TensorSink& sink) {
    const std::string name =
        std::string(state_tensors().front().folder) + "/" + format::link_name(heads[i].name);
    const format::LogicalGroup::Tensor* tensor = group.find(name);
    if (tensor == nullptr || tensor->dtype != DType::kF32) {
      throw Error(ErrorCode::kUnsupported,
                  "the weights before step " + step.name() + " have " +
                      (tensor == nullptr ? "no " : "no f32 ") + name,
                  dump_->path());
    }
    const Buffer<std::byte> bytes = group.read(name);
    sink({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
  };
  foreign::write_safetensors((folder / "model.safetensors").string(), heads, read);
  return WeightFiles::open(folder.string());
}

}  // namespace rlreplay::replay
