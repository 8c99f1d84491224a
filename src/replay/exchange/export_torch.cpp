#include "src/replay/exchange/export_torch.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>

#include "format/foreign/dump_check.h"
#include "format/foreign/framework.h"
#include "format/foreign/rollout_file.h"
#include "format/foreign/torch_writer.h"
#include "format/group_name.h"
#include "format/rollout_join.h"
#include "format/rule.h"
#include "format/train_ranks.h"
#include "src/base/words.h"
#include "src/replay/exchange/dicts.h"
#include "src/replay/exchange/import_check.h"
#include "src/replay/exchange/import_rollout.h"
#include "src/replay/exchange/kept_file.h"
#include "src/replay/exchange/own_datasets.h"
#include "src/replay/exchange/own_rollout.h"
#include "src/replay/exchange/slime_train_tree.h"
#include "src/replay/exchange/slime_tree.h"
#include "src/replay/exchange/unsaid.h"
#include "src/replay/record/dump_meta.h"
#include "src/replay/record/imported_samples.h"
#include "src/replay/record/parse_step.h"

namespace rlreplay::replay {
namespace {

using foreign::Kind;
using foreign::TorchFile;
using foreign::Tree;
using foreign::Value;
using format::DumpReader;
using format::RolloutData;

constexpr std::string_view kSlime = to_string(foreign::Framework::kSlime);

/// What a sample of a few tokens takes as a framework's dict, and while that is written.
constexpr uint64_t kSampleBytes = 4096;

/// What an export of this program put beside a rollout's samples, without datasets of them all;
/// None where nothing remains.
Value own_of_selection(Tree& tree, Value own) {
  if (own.kind != Kind::kDict) return own;
  const auto stored = tree.sequence(own).values();
  std::vector<Value> kept;
  for (size_t i = 0; i < stored.size(); i += 2) {
    if (stored[i].kind == Kind::kText && tree.text(stored[i]) == "datasets") continue;
    kept.insert(kept.end(), {stored[i], stored[i + 1]});
  }
  return kept.empty() ? Value() : tree.add_sequence(Kind::kDict, kept);
}

/// A rollout dump with the chosen samples only, in their order in the file.
Value select(Tree& tree, Value root, const std::set<uint64_t>& chosen) {
  const foreign::RolloutFile batch = read_rollout(tree, root);
  const std::vector<uint64_t> ids = sample_ids(batch.index);
  const Value samples = *tree.find(root, "samples");
  std::vector<Value> kept;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (chosen.contains(ids[i])) kept.push_back(tree.sequence(samples)[i]);
  }
  const Value list = tree.add_sequence(Kind::kList, kept);
  const auto stored = tree.sequence(root).values();
  const std::vector<Value> whole(stored.begin(), stored.end());
  std::vector<Value> items;
  for (size_t i = 0; i < whole.size(); i += 2) {
    const auto is_key = [&](std::string_view key) {
      return whole[i].kind == Kind::kText && tree.text(whole[i]) == key;
    };
    Value value = is_key("samples") ? list : whole[i + 1];
    if (is_key("rlreplay")) {
      value = own_of_selection(tree, value);
      if (value.kind == Kind::kNone) continue;
    }
    items.insert(items.end(), {whole[i], value});
  }
  return tree.add_sequence(Kind::kDict, items);
}

/// Makes folders below one that is there, and never that one: a signal may just have removed it.
void make_folders(const std::filesystem::path& root, const std::filesystem::path& below) {
  std::filesystem::path at = root;
  for (const auto& name : below) {
    at /= name;
    std::error_code error;
    std::filesystem::create_directory(at, error);
    if (error) throw Error(ErrorCode::kEnvironment, error.message(), at.string());
  }
}

/// Puts a file in its place, by its name below the output, and says where that is.
using FileSink =
    std::function<std::string(const std::filesystem::path& name, const Tree& tree, Value root)>;

FileSink into_folder(const std::string& folder) {
  make_folders({}, folder);
  return [folder](const std::filesystem::path& name, const Tree& tree, Value root) {
    make_folders(folder, name.parent_path());
    const std::string path = (std::filesystem::path(folder) / name).string();
    write_torch_file(path, tree, root);
    return path;
  };
}

FileSink into_file(const std::string& path) {
  return [path](const std::filesystem::path&, const Tree& tree, Value root) {
    make_folders({}, std::filesystem::path(path).parent_path());
    write_torch_file(path, tree, root);
    return path;
  };
}

std::string nowhere(const std::filesystem::path& name, const Tree&, Value) { return name.string(); }

foreign::Problem finding_of(const Error& error, const std::string& unit) {
  const auto* breach = dynamic_cast<const format::FormatError*>(&error);
  const bool named = error.where().find(unit) != std::string::npos;
  return {breach != nullptr ? std::string(to_string(breach->rule())) : "not-exportable",
          error.what(), named ? error.where() : unit + ": " + error.where()};
}

/// Sees that one file is asked for only where one rollout goes into it.
/// Errors: kUsage where several rollouts would be written into one file.
void check_one_rollout(const DumpReader& dump, const std::optional<ChosenSamples>& chosen,
                       const std::string& output) {
  std::set<std::string> rollouts;
  for (const format::UnitRecord& unit : dump.units()) {
    if (format::kind_of(unit.path) != "rollout") continue;
    for (const std::string& group : unit.groups) {
      if (!chosen || chosen->contains(group)) rollouts.insert(group);
    }
  }
  if (rollouts.size() <= 1) return;
  throw Error(ErrorCode::kUsage,
              (chosen ? "what is selected lies in rollouts " +
                            joined(std::vector(rollouts.begin(), rollouts.end()), ", ")
                      : "the dump holds " + std::to_string(rollouts.size()) + " rollouts") +
                  ", and one .pt file holds one: name a folder",
              output);
}

/// Writes the files of a framework: kept files give back what was imported; then every rollout that
/// none of them gave (done_) is made of its columns.
class Exporter {
 public:
  Exporter(const DumpReader& dump, std::string vendor, FileSink sink, bool single,
           const std::optional<ChosenSamples>& chosen)
      : dump_(dump),
        vendor_(std::move(vendor)),
        sink_(std::move(sink)),
        single_(single),
        chosen_(chosen),
        content_bytes_(content_bytes(dump)),
        imported_(imported_from(dump.meta(), "meta").has_value()),
        native_(dump) {}

  Exported run() {
    const std::string kind = "x-" + vendor_;
    for (const format::UnitRecord& unit : dump_.units()) {
      if (format::kind_of(unit.path) == kind) export_kept(unit);
    }
    for (const format::UnitRecord& record : dump_.units()) {
      if (format::kind_of(record.path) != "rollout") continue;
      std::optional<format::UnitReader> unit;
      for (const std::string& group : record.groups) {
        const std::optional<int64_t> id = format::parse_rollout(group);
        if (!id || done_.contains(*id) || !takes(group)) continue;
        if (!unit) unit.emplace(dump_.open_unit(record));
        if (holds_events_alone(*unit, group)) continue;
        export_own(*id);
        done_.insert(*id);
      }
    }
    note_left_out();
    std::ranges::move(unsaid_.lines(), std::back_inserter(made_.left_out));
    return std::move(made_);
  }

  /// What the export of kept files refuses, or an import of what it writes, unit by unit.
  std::vector<foreign::Problem> check_kept() {
    checks_ = true;
    std::vector<foreign::Problem> problems;
    for (const format::UnitRecord& unit : dump_.units()) {
      if (format::kind_of(unit.path) != "x-" + vendor_) continue;
      try {
        export_kept(unit);
      } catch (const Error& error) {
        if (error.code() == ErrorCode::kEnvironment) throw;
        problems.push_back(finding_of(error, unit.path));
      }
    }
    return problems;
  }

 private:
  bool takes(const std::string& rollout) const { return !chosen_ || chosen_->contains(rollout); }
  const std::set<uint64_t>& chosen_of(int64_t rollout) const {
    return chosen_->at(std::to_string(rollout));
  }

  void export_kept(const format::UnitRecord& record) {
    if (record.groups.empty()) throw Error(ErrorCode::kCorrupt, "it holds no group", record.path);
    const std::string& group = record.groups.front();
    if (!takes(group)) return;
    const format::UnitReader unit = dump_.open_unit(record);
    check_kept_name(unit);
    RestoredFile file(dump_, unit, native_.of(unit), content_bytes_);
    const std::optional<int64_t> id = format::parse_rollout(group);
    Value root = file.root();
    const foreign::DumpKind kind = dump_kind(file.tree(), root);
    const bool evaluation = unit.find(group + "/tokens") != nullptr;
    const bool rollout = kind == foreign::DumpKind::kRollout && !evaluation;
    if (rollout) {
      if (!id) {
        throw Error(ErrorCode::kCorrupt,
                    "it keeps a rollout, and its group " + group + " is no rollout's", record.path);
      }
      done_.insert(*id);
    }
    const bool train =
        kind == foreign::DumpKind::kTrainRank || kind == foreign::DumpKind::kTrainSamples;
    if (!rollout && (single_ || chosen_)) {
      if (!train) ++kept_left_;
      return;
    }
    if (train && id) trained_.insert(*id);
    if (chosen_) root = select(file.tree(), root, chosen_of(*id));
    write(file.name(), file.tree(), root);
    if (!checks_) return;
    TorchFile restored = file.take_file();
    check_importable(restored);
  }

  /// The samples of a rollout, of all units that hold any.
  RolloutData read_all(const std::string& group, std::span<const format::UnitReader> units,
                       format::HeldBytes& held) const {
    std::vector<RolloutData> parts;
    for (const format::UnitReader& unit : units) {
      if (holds_events_alone(unit, group)) continue;
      parts.push_back(read_rollout_data(dump_, unit, group, &held));
      held.hold(unit.record(), group, parts.back().size() * kSampleBytes);
    }
    return parts.size() == 1 ? std::move(parts.front())
                             : format::join_rollout(parts, "rollout/" + group);
  }

  void export_own(int64_t id) {
    const std::string group = std::to_string(id);
    std::vector<format::UnitReader> units;
    for (const format::UnitRecord* record : dump_.find("rollout", group)) {
      units.push_back(dump_.open_unit(*record));
    }
    const auto saying = units_beside_events(units, group);
    format::HeldBytes held;
    const auto read = std::make_shared<RolloutData>(read_all(group, units, held));
    const RolloutData& data = *read;
    Tree tree;
    const auto others = samples_with_inputs(dump_, group);
    Value root = slime_rollout(tree, data, id, others);
    if (chosen_) root = select(tree, root, chosen_of(id));
    std::vector<format::Dataset> own;
    if (!chosen_) own = own_datasets_of(dump_, units, group, read);
    add_own_part(tree, root, data, own, group);
    write("rollout_data/" + group + ".pt", tree, root);
    const bool trained = !chosen_ || !imported_;
    if (vendor_ == kSlime && !single_ && trained) export_own_training(id, data);
    const auto made = imported_datasets(read, group, own);
    if (saying.size() == 1) return unsaid_.compare(dump_, *saying.front(), group, made);
    unsaid_.compare_joined(dump_, "rollout", group, made);
  }

  /// That no finish was recorded and, of all samples, datasets for which they have no field.
  static void add_own_part(Tree& tree, Value root, const RolloutData& data,
                           std::span<const format::Dataset> own, const std::string& group) {
    Dicts dicts(tree);
    const Value part = dicts.make();
    if (!data.finish) dicts.set(part, "absent", dicts.text("finish"));
    if (!own.empty()) dicts.set(part, "datasets", add_own_datasets(tree, own, group));
    if (tree.sequence(part).size() > 0) dicts.set(root, "rlreplay", part);
  }

  void export_own_training(int64_t id, const RolloutData& rollout) {
    OwnTraining training{id, rollout, {}};
    format::HeldBytes held;
    const auto steps = native_.trains().find(id);
    if (steps == native_.trains().end() || !rollout.prompt_length) return;
    for (const std::string& group : steps->second) {
      const std::vector<const format::UnitRecord*> units = dump_.find("train", group);
      const format::UnitRecord& record = *units.at(0);
      format::TrainData data = format::read_whole_train(dump_, group, held);
      held.hold(record, group, data.offsets.back() * sizeof(int32_t));  // its samples' tokens
      held.hold(record, group, data.sample_id.size() * kSampleBytes);
      training.steps.emplace(parse_step(group)->step, std::move(data));
    }
    trained_.insert(id);
    std::optional<std::set<uint64_t>> selected;
    if (chosen_) selected = chosen_of(id);
    Tree tree;
    const Value root = slime_train(tree, dump_, training, selected);
    if (tree.sequence(*tree.find(root, "samples")).size() == 0) return;
    write("train_data/" + std::to_string(id) + ".pt", tree, root);
  }

  void leave_out(const std::string& what, const std::string& reason) {
    made_.left_out.push_back(what + " (" + reason + ")");
  }

  const char* reason_without_training() const {
    if (single_) return "one .pt file holds a rollout: name a folder";
    if (vendor_ != kSlime) return "it is written for slime, or as it was imported";
    if (chosen_) return "of a selection, only what this program trained is written";
    return "its rollout, or its prompts' lengths, are not in the dump";
  }

  void note_left_out() {
    size_t steps = 0;
    for (const auto& [rollout, groups] : native_.trains()) {
      if (takes(std::to_string(rollout)) && !trained_.contains(rollout)) steps += groups.size();
    }
    if (steps > 0)
      leave_out("training data of " + counted(steps, "step"), reason_without_training());
    if (kept_left_ > 0) {
      leave_out("other imported files: " + std::to_string(kept_left_),
                single_ ? "one .pt file holds a rollout: name a folder"
                        : "of a selection, only rollouts are written of what was imported");
    }
  }

  void write(const std::string& name, const Tree& tree, Value root) {
    if (!written_.insert(name).second)
      throw Error(ErrorCode::kCorrupt, "the dump keeps two files of one name", name);
    made_.files.push_back(sink_(name, tree, root));
  }

  const DumpReader& dump_;
  std::string vendor_;
  FileSink sink_;
  bool single_;  // one .pt file, of a rollout
  const std::optional<ChosenSamples>& chosen_;
  uint64_t content_bytes_;
  bool imported_;  // and not trained by this program
  NativeReader native_;
  std::set<int64_t> done_;     // rollouts that are written
  std::set<int64_t> trained_;  // those whose training data is, too
  size_t kept_left_ = 0;       // imported files that are not written, but training data
  std::set<std::string> written_;
  bool checks_ = false;
  Unsaid unsaid_{"samples of slime"};
  Exported made_;
};

}  // namespace

Exported export_torch(const DumpReader& dump, const std::string& vendor, const std::string& output,
                      const std::optional<ChosenSamples>& chosen) {
  const bool single = output.ends_with(".pt");
  if (single) check_one_rollout(dump, chosen, output);
  return Exporter(dump, vendor, single ? into_file(output) : into_folder(output), single, chosen)
      .run();
}

std::vector<foreign::Problem> check_kept_files(const DumpReader& dump) {
  std::vector<foreign::Problem> problems;
  const std::optional<ChosenSamples> all;
  for (const std::string_view vendor : foreign::kFrameworkNames) {
    std::ranges::move(Exporter(dump, std::string(vendor), nowhere, false, all).check_kept(),
                      std::back_inserter(problems));
  }
  return problems;
}

}  // namespace rlreplay::replay
