#include "src/replay/doctor/weight_versions.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "format/dump_files.h"
#include "format/foreign/checkpoint_config.h"
#include "format/foreign/safetensors_writer.h"
#include "format/logical_group.h"
#include "src/base/error.h"
#include "src/base/progress.h"
#include "src/replay/doctor/checkpoint_rules.h"
#include "src/replay/record/parse_step.h"
#include "src/replay/record/state_reader.h"

namespace rlreplay::replay {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEarlier = "an earlier checkpoint";

/// A checkpoint that is not whole is nothing to hold weights against. `what`: the reference, or an
/// earlier checkpoint. Errors: kCorrupt.
WeightFiles open_whole(const std::string& path, const std::string& what) {
  WeightFiles out = WeightFiles::open(path);
  Diagnosis diagnosis;
  check_files(out, diagnosis);
  check_index(out, diagnosis);
  for (const DoctorFinding& finding : diagnosis.findings()) {
    if (!finding.damaged) continue;
    throw Error(ErrorCode::kCorrupt,
                what + " cannot be read: " + finding.where + ": " + finding.observed, path);
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

/// A parameter before a step, as the dump at `path` has it. Errors: kIncomplete where it is
/// missing, kCorrupt for another shape than the model's, kUnsupported for another type than f32.
Buffer<std::byte> read_parameter(format::LogicalGroup& group, const foreign::TensorHead& head,
                                 const std::string& path) {
  const std::string name =
      std::string(state_tensors().front().folder) + "/" + format::link_name(head.name);
  const format::LogicalGroup::Tensor* tensor = group.find(name);
  if (tensor == nullptr) {
    throw Error(ErrorCode::kIncomplete, "the recorded weights lack " + name, path);
  }
  if (!std::ranges::equal(tensor->shape, head.shape, std::cmp_equal<uint64_t, int64_t>)) {
    throw Error(ErrorCode::kCorrupt,
                name + " is " + format::shape_text(tensor->shape) + ", expected " +
                    foreign::shape_text(head.shape) + ", as the recorded model has",
                path);
  }
  if (tensor->dtype != DType::kF32) {
    throw Error(ErrorCode::kUnsupported,
                name + " is " + std::string(to_string(tensor->dtype)) +
                    ": weights of f32 are held against a checkpoint",
                path);
  }
  return group.read(name);
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
    static_cast<void>(open_whole(path, kEarlier));  // before any work is done
    sources_.push_back({path, std::nullopt});
  }
  const Source& source = sources_.front();
  expected_ =
      source.step ? unpack(*source.step, {}, "expected") : open_whole(source.path, "the reference");
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

WeightFiles WeightVersions::open_earlier(size_t number, const std::set<std::string>& names) {
  const Source& source = sources_.at(number + 1);
  return source.step ? unpack(*source.step, names, "earlier") : open_whole(source.path, kEarlier);
}

WeightFiles WeightVersions::unpack(const StepId& step, const std::set<std::string>& names,
                                   const std::string& place) const {
  const ModelConfig model = dump_->config().model;
  std::vector<foreign::TensorHead> heads;
  for (foreign::ExpectedTensor& tensor : foreign::expected_tensors(model)) {
    if (!names.empty() && !names.contains(tensor.name)) continue;
    heads.push_back({std::move(tensor.name), DType::kF32, std::move(tensor.shape)});
  }
  const fs::path folder = fs::path(folder_->path()) / place;
  remove_tree(folder.string());
  fs::create_directory(folder);
  std::ofstream(folder / "config.json") << foreign::config_json(model);
  format::LogicalGroup group = format::logical_group(dump_->dump(), "weights", step.group());
  Progress progress("unpacked", "tensors", static_cast<int64_t>(heads.size()));
  const auto read = [&](size_t i, const foreign::TensorSink& sink) {
    const Buffer<std::byte> bytes = read_parameter(group, heads[i], dump_->path());
    sink({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
    progress.at(static_cast<int64_t>(i) + 1);
  };
  foreign::write_safetensors((folder / "model.safetensors").string(), heads, read);
  return WeightFiles::open(folder.string());
}

}  // namespace rlreplay::replay
