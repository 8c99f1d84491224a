#include "src/replay/exchange/imported_dump.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "format/canonical.h"
#include "format/group_name.h"
#include "src/base/words.h"
#include "src/replay/record/import_findings.h"
#include "src/replay/record/imported_samples.h"
#include "src/replay/record/run_gaps.h"

namespace rlreplay::replay {

std::string group_of_unit(const std::string& unit) {
  const size_t begin = unit.find('/') + 1;
  return unit.substr(begin, unit.find_first_of("/.", begin) - begin);
}

ImportedDump::ImportedDump(const ImportOptions& options)
    : options_(options),
      place_(options.output, options.force,
             options.temporary ? format::DumpPlace::Writer::kTemporary
                               : format::DumpPlace::Writer::kOneGo) {}

void ImportedDump::made_by(const std::string& vendor, int64_t ranks) {
  vendor_ = vendor;
  ranks_ = ranks;
}

void ImportedDump::claim(const std::string& unit, const std::string& path) {
  const auto [it, fresh] = report_.sources.emplace(unit, path);
  if (fresh) return;
  throw Error(
      ErrorCode::kUsage,
      "this file and " + it->second + " hold the same (" + unit + "): import one run at a time",
      path);
}

void ImportedDump::append(const std::string& unit, const std::vector<format::Dataset>& datasets) {
  writer().append(unit, datasets);
}

void ImportedDump::note(const std::string& path, const std::vector<foreign::Problem>& problems) {
  for (const foreign::Problem& problem : problems) {
    if (problem.code == "not-a-dump") continue;  // its layout says so
    const bool named = problem.where.find(path) != problem.where.npos;
    report_.findings.push_back(
        {problem.code, problem.message, named ? problem.where : path + ": " + problem.where});
  }
}

void ImportedDump::count(int64_t rollout, const format::RolloutData& data) {
  kept_[rollout] = kept_samples(data);
  ++report_.rollouts;
  report_.samples += data.size();
  report_.tokens += data.tokens.size();
}

void ImportedDump::add_trained(int64_t rollout, const std::vector<uint64_t>& samples) {
  auto& all = trained_[rollout];
  all.insert(all.end(), samples.begin(), samples.end());
}

void ImportedDump::add_inputs(int64_t rollout, std::set<uint64_t> samples) {
  with_inputs_[rollout].merge(samples);
}

void ImportedDump::append_inputs() {
  size_t samples = 0;
  for (const auto& [rollout, ids] : with_inputs_) {
    if (ids.empty()) continue;
    samples += ids.size();
    const std::string group = std::to_string(rollout);
    append(std::string(kInputsKind) + "/" + group + ".h5",
           {format::dataset_of<uint64_t>(group + "/sample_id", DType::kU64, {ids.size()},
                                         {ids.begin(), ids.end()})});
  }
  if (samples == 0) return;
  report_.findings.push_back(
      {"inputs",
       counted(samples, "sample") +
           " were made from more than their tokens (images, sound): that is kept for an "
           "export, and no model here reads it, so train refuses them",
       options_.paths.front()});
}

/// Rollouts and steps that are not there, though others are.
void ImportedDump::note_gaps() {
  std::set<int64_t> generated, trained;
  std::map<int64_t, std::set<int64_t>> steps;
  for (const auto& [unit, path] : report_.sources) {
    const auto name = format::GroupName::parse(group_of_unit(unit));
    if (!name || unit.starts_with("x-")) continue;
    (name->step ? trained : generated).insert(name->rollout);
    if (name->step) steps[name->rollout].insert(*name->step);
  }
  note(options_.paths.front(), check_rollouts(generated, trained));
  // Rollouts alone are what was asked for: verify says what that leaves unchecked.
  if (!trained.empty()) note(options_.paths.front(), find_unheld(generated, trained));
  note(options_.paths.front(), find_rollout_gaps(generated, trained));
  note(options_.paths.front(), find_step_gaps(steps));
}

/// Whether a rollout's samples have other ids than its file says, by which steps name them.
bool ImportedDump::has_replaced_ids(int64_t rollout) const {
  const std::string place = ": rollout/" + std::to_string(rollout);
  return std::ranges::any_of(report_.findings, [&](const foreign::Problem& found) {
    return is_replaced_id(found) && found.where.ends_with(place);
  });
}

/// Reports samples that no step trains on, as verify does of the dump.
void ImportedDump::note_untrained() {
  for (const auto& [rollout, trained] : trained_) {
    const auto kept = kept_.find(rollout);
    if (kept == kept_.end() || has_replaced_ids(rollout)) continue;
    const std::string found = untrained_samples(rollout, kept->second, trained);
    if (found.empty()) continue;
    report_.findings.push_back({"sample-untrained", found, options_.paths.front()});
  }
}

ImportReport ImportedDump::finish() {
  note_gaps();
  note_untrained();
  report_.root =
      writer().seal({.complete = true, .unstable = provenance_.json(), .derived_from = {}});
  writer_.reset();
  place_.settle();
  return std::move(report_);
}

/// The writer begins with the first file that could be read.
format::DumpWriter& ImportedDump::writer() {
  if (writer_) return *writer_;
  format::JsonObject source;
  source.text("imported", vendor_);
  format::JsonObject meta;
  meta.number("ranks", static_cast<uint64_t>(ranks_)).json("source", source.str());
  if (!options_.launch.empty()) meta.json("launch", options_.launch);
  format::WriterOptions settings;
  settings.threads = options_.threads;
  settings.durable = options_.temporary ? format::Durable::kNever : format::Durable::kSealed;
  writer_.emplace(format::DumpWriter::create(place_.path(), meta.str(), settings));
  return *writer_;
}

}  // namespace rlreplay::replay
