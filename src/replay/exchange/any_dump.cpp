#include "src/replay/exchange/any_dump.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "format/dump_content.h"
#include "format/dump_files.h"
#include "format/foreign/dump_check.h"
#include "format/foreign/numbers.h"
#include "format/foreign/torch_file.h"
#include "format/group_name.h"
#include "format/meaning.h"
#include "format/rollout_join.h"
#include "format/rule.h"
#include "src/base/error.h"
#include "src/base/shell.h"
#include "src/base/words.h"
#include "src/replay/exchange/import.h"
#include "src/replay/exchange/kept_file.h"
#include "src/replay/exchange/source_files.h"

namespace rlreplay::replay {

namespace fs = std::filesystem;

bool is_native_dump(const std::string& path) { return format::looks_like_dump(path); }

void check_no_part(const std::string& path) {
  const fs::path file(path);
  const std::string name = file.filename().string();
  const fs::path folder = file.parent_path();
  const bool journal = folder.filename() == format::kJournalFolder &&
                       is_native_dump((folder / "..").lexically_normal().string());
  if (name == "manifest.json" || name == format::kOldJournalName || journal ||
      file.extension() == ".h5") {
    throw Error(ErrorCode::kUsage, "the file is part of a dump: name the dump's folder", path);
  }
}

void check_imported(const std::string& path) {
  const bool folder = fs::is_directory(path);
  const bool file = path.ends_with(".pt") || path.ends_with(".jsonl");
  if (!fs::exists(path) || is_native_dump(path) || !(folder || file)) return;
  if (folder && find_sources({path}, ".pt").empty()) return;
  throw Error(ErrorCode::kUsage,
              "these are files of another program, and this verb takes a dump: import them first, "
              "rlreplay import " +
                  shell_word(path) + " -o dump/",
              path);
}

namespace {

using foreign::Tree;
using foreign::Value;

/// The text with the folder's path, and what is named below it, replaced.
std::string without_folder(std::string text, const std::string& folder, const std::string& by) {
  for (size_t at = 0; (at = text.find(folder, at)) != text.npos; at += by.size()) {
    const size_t end = std::min(text.find_first_of(": ,", at + folder.size()), text.size());
    text.replace(at, end - at, by);
  }
  return text;
}

/// Where a text names a unit, and not a part of another path; npos where it does not.
size_t place_of(const std::string& text, const std::string& unit) {
  const size_t at = text.find(unit);
  return at == 0 || (at != text.npos && text[at - 1] == ' ') ? at : text.npos;
}

std::vector<int64_t> indices_of(const Tree& tree, Value columns) {
  const Value* indices = tree.find(columns, "sample_indices");
  const auto numbers = indices == nullptr ? std::nullopt : foreign::Numbers::of(tree, *indices);
  std::vector<int64_t> out;
  for (size_t i = 0; numbers && numbers->is_integer() && i < numbers->size(); ++i) {
    out.push_back(numbers->integer(i));
  }
  return out;
}

}  // namespace

AnyDump::AnyDump(const std::string& path, const std::string& steps) : path_(path) {
  if (is_native_dump(path)) {
    open(path);
    run_->keep_steps(steps);
    return;
  }
  check_no_part(path);
  temporary_.emplace("rlreplay");
  try {
    import_files();
  } catch (const Error& error) {
    const std::string& folder = temporary_->path();
    const bool inside = error.where().find(folder) != std::string::npos;
    throw Error(
        error.code(),
        without_folder(error.what(), folder, "the temporary folder") +
            (inside ? ", while it was read into a temporary folder (TMPDIR says where)" : ""),
        without_folder(error.where(), folder, path_));
  }
  open(temporary_->path() + "/dump");
  run_->keep_steps(steps);
}

void AnyDump::import_files() {
  ImportOptions options;
  options.paths = {path_};
  options.output = temporary_->path() + "/dump";
  options.temporary = true;
  ImportReport report = import_dump(options);
  sources_ = std::move(report.sources);
}

void AnyDump::open(const std::string& folder) {
  try {
    run_ = std::make_unique<RecordedRun>(folder, path_);
  } catch (const format::FormatError& error) {
    throw error.at((fs::path(path_) / error.where()).string());
  }
}

const format::UnitRecord* AnyDump::find_unit(const Error& error) const {
  const auto& units = reader().units();
  const auto found = std::ranges::find_if(units, [&](const format::UnitRecord& unit) {
    return place_of(error.where(), unit.path) != std::string::npos;
  });
  return found == units.end() ? nullptr : &*found;
}

Error AnyDump::named(const Error& error) const {
  const format::UnitRecord* unit = find_unit(error);
  if (unit == nullptr) return error;
  const auto source = sources_.find(unit->path);
  const std::string place = !is_temporary()            ? (fs::path(path_) / unit->path).string()
                            : source == sources_.end() ? path_
                                                       : source->second;
  std::string where = error.where();
  where.replace(place_of(where, unit->path), unit->path.size(), place);
  return error.at(where);
}

void AnyDump::Shard::list(const Tree& tree, Value root) {
  const foreign::DumpKind kind = dump_kind(tree, root);
  const std::optional<int64_t> rank = tree.integer(root, "rank");
  const auto add = [&](int64_t index, std::optional<int64_t> by) {
    distinct = samples.emplace(static_cast<uint64_t>(index), by).second && distinct;
  };
  if (kind == foreign::DumpKind::kTrainRank) {
    for (const int64_t index : indices_of(tree, *tree.find(root, "rollout_data"))) add(index, rank);
  }
  if (kind != foreign::DumpKind::kTrainSamples) return;
  // Where slime stores the index of a sample, Relax stores the row under the same name.
  whole = tree.find(root, "format_version") != nullptr;
  const foreign::Sequence& rows = tree.sequence(*tree.find(root, "samples"));
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto index = tree.integer(rows[i], whole ? "sample_index" : "sample_indices");
    if (index) add(*index, rank);
  }
  const Value* shards = tree.find(root, "dp_shards");
  if (shards == nullptr || shards->kind != foreign::Kind::kList) return;
  for (auto& [index, by] : samples) by.reset();
  const foreign::Sequence& list = tree.sequence(*shards);
  for (size_t i = 0; i < list.size(); ++i) {
    for (const int64_t index : indices_of(tree, list[i])) {
      const auto at = samples.find(static_cast<uint64_t>(index));
      if (at != samples.end() && !at->second) at->second = tree.integer(list[i], "rank");
    }
  }
}

void AnyDump::Shard::cut(const foreign::ShardGroup& group, size_t at) {
  place = at;
  const foreign::TrainShard& file = *group.shards[at];
  for (size_t row = 0; group.cp_size > 1 && row < file.indices().size(); ++row) {
    auto ranges = foreign::slices(file, row, group.cp_size, group.cp_rank[at]);
    const int64_t prompt = file.length(row, "total_lengths") - file.length(row, "response_lengths");
    for (foreign::ResponseRange& range : ranges) {
      range.begin += prompt;
      range.end += prompt;
    }
    slices.emplace(static_cast<uint64_t>(file.indices()[row]), ranges);
  }
}

bool AnyDump::Shard::holds(uint64_t sample, std::optional<uint64_t> token) const {
  if (!in_run || !samples.contains(sample)) return false;
  const auto at = slices.find(sample);
  if (!token || at == slices.end()) return true;
  const auto t = static_cast<int64_t>(*token);
  return std::ranges::any_of(at->second, [&](const foreign::ResponseRange& range) {
    return range.begin <= t && t < range.end;
  });
}

void AnyDump::cut_shards(const std::vector<foreign::TorchFile>& files, std::vector<Shard*> of) {
  try {
    const std::vector<foreign::TrainShard> shards(files.begin(), files.end());
    for (const foreign::ShardGroup& group : foreign::group_shards(shards)) {
      for (size_t at = 0; at < group.shards.size(); ++at) {
        of[static_cast<size_t>(group.shards[at] - shards.data())]->cut(group, at);
      }
    }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kEnvironment || error.code() == ErrorCode::kInternal) throw;
    // verify says what is wrong with them
  }
}

const std::vector<AnyDump::Shard>& AnyDump::shards(int64_t rollout) const {
  const auto [at, fresh] = shards_.try_emplace(rollout);
  std::vector<Shard>& out = at->second;
  if (!fresh) return out;
  const std::string group = std::to_string(rollout);
  NativeReader native(reader());
  std::vector<foreign::TorchFile> ranks;
  std::vector<size_t> rank_shards;  // places in `out`
  for (const format::UnitRecord& record : reader().units()) {
    if (!record.path.starts_with("x-") || std::ranges::count(record.groups, group) == 0) continue;
    Shard made;
    made.in_run = record.path.find("/train_data/") != record.path.npos;
    const auto source = sources_.find(record.path);
    if (source == sources_.end() && !made.in_run) continue;
    try {
      const format::UnitReader unit = reader().open_unit(record);
      made.name = kept_name(unit);
      if (source != sources_.end()) made.path = source->second;
      foreign::TorchFile file =
          source != sources_.end()
              ? foreign::TorchFile(made.path)
              : RestoredFile(reader(), unit, native.of(unit), content_bytes(reader())).take_file();
      made.list(file.tree(), file.root());
      if (made.samples.empty()) continue;
      if (made.in_run && !made.whole) {
        ranks.push_back(std::move(file));
        rank_shards.push_back(out.size());
      }
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kEnvironment || error.code() == ErrorCode::kInternal) throw;
      continue;  // verify says what is wrong with it
    }
    out.push_back(std::move(made));
  }
  std::vector<Shard*> of;
  for (const size_t i : rank_shards) of.push_back(&out[i]);
  cut_shards(ranks, std::move(of));
  return out;
}

std::optional<int64_t> AnyDump::rank_of(int64_t rollout, uint64_t sample,
                                        std::optional<uint64_t> token) const {
  std::set<int64_t> ranks;
  for (const Shard& shard : shards(rollout)) {
    if (!shard.holds(sample, token) || shard.whole) continue;
    if (const auto rank = shard.samples.at(sample)) ranks.insert(*rank);
  }
  return ranks.size() == 1 ? std::optional(*ranks.begin()) : std::nullopt;
}

std::string AnyDump::shard_of(int64_t rollout, uint64_t sample,
                              std::optional<uint64_t> token) const {
  const Shard* first = nullptr;
  for (const Shard& shard : shards(rollout)) {
    if (!shard.holds(sample, token) || !shard.samples.at(sample)) continue;
    if (first == nullptr || shard.place < first->place) first = &shard;
  }
  if (first == nullptr) return {};
  return first->name + " (rank " + std::to_string(*first->samples.at(sample)) + ")";
}

std::string AnyDump::file_of(const std::string& place, std::optional<uint64_t> sample) const {
  if (place.starts_with("x-")) {
    const auto kept = sources_.find(place.substr(0, place.find(": ")));
    return kept == sources_.end() ? "" : kept->second;
  }
  const size_t slash = std::min(place.find('/'), place.size());
  const std::string rest = place.substr(std::min(slash + 1, place.size()));
  const auto name = format::GroupName::parse(rest.substr(0, rest.find_first_of("/:")));
  if (!name) return {};
  if (place.starts_with("rollout/")) {
    const auto source = sources_.find("rollout/" + std::to_string(name->rollout) + ".h5");
    return source == sources_.end() ? "" : source->second;
  }
  if (!place.starts_with("train/") || !sample) return {};
  std::vector<std::string> files;
  for (const Shard& shard : shards(name->rollout)) {
    // Where an index occurs twice the samples have other ids than their files say.
    if (!shard.distinct) return {};
    if (shard.samples.contains(*sample)) files.push_back(shard.path);
  }
  if (files.empty()) return {};
  return files.front() + (files.size() == 1 ? ""
                                            : ", the first of " + counted(files.size(), "file") +
                                                  " that hold the sample");
}

bool AnyDump::reads(const Error& error) const {
  const format::UnitRecord* record = find_unit(error);
  if (record == nullptr) return true;
  try {
    const format::UnitReader unit = reader().open_unit(*record);
    format::check_values(reader(), unit);
    std::vector<format::Problem> problems;
    check_meaning(unit, problems);
    for (const std::string& group : record->groups) {
      if (format::kind_of(record->path) == "rollout") check_samples_once(reader(), group);
    }
    return problems.empty();
  } catch (const Error&) {  // it is `error` again, or another reason why this dump is to blame
    return false;
  }
}

}  // namespace rlreplay::replay
