#include "src/replay/exchange/export_torch.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "format/foreign/dump_check.h"
#include "format/foreign/rollout_batch.h"
#include "format/foreign/torch_writer.h"
#include "src/replay/exchange/dicts.h"
#include "src/replay/exchange/import_rollout.h"
#include "src/replay/exchange/kept_file.h"
#include "src/replay/exchange/own_datasets.h"
#include "src/replay/exchange/slime_train_tree.h"
#include "src/replay/exchange/slime_tree.h"

namespace rlreplay::replay {
namespace {

using foreign::Kind;
using foreign::Tree;
using foreign::Value;
using format::DumpReader;
using format::RolloutData;

std::optional<int64_t> number(std::string_view text) {
  int64_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

/// A rollout dump with the chosen samples only, in their order in the file.
Value select(Tree& tree, Value root, const std::set<uint64_t>& chosen) {
  const foreign::RolloutBatch batch = read_rollout(tree, root);
  const std::vector<uint64_t> ids = sample_ids(batch.index);
  const Value samples = *tree.find(root, "samples");
  std::vector<Value> kept;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (chosen.contains(ids[i])) kept.push_back(tree.sequence(samples)[i]);
  }
  const Value list = tree.add_sequence(Kind::kList, kept);
  const auto stored = tree.sequence(root).values();
  std::vector<Value> items(stored.begin(), stored.end());
  for (size_t i = 0; i < items.size(); i += 2) {
    const bool named = items[i].kind == Kind::kText && tree.text(items[i]) == "samples";
    if (named) items[i + 1] = list;
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

class Exporter {
 public:
  Exporter(const DumpReader& dump, std::string vendor, std::string folder,
           const Selection& selection)
      : dump_(dump),
        vendor_(std::move(vendor)),
        folder_(std::move(folder)),
        single_(folder_.ends_with(".pt")),
        selection_(selection) {
    if (!single_) make_folders({}, folder_);
    size_t rollouts = 0;
    for (const format::UnitRecord& unit : dump.units()) {
      if (format::kind_of(unit.path) == "rollout") rollouts += unit.groups.size();
    }
    if (!single_ || rollouts == 1) return;
    throw Error(ErrorCode::kUsage,
                "the dump holds " + std::to_string(rollouts) + " rollouts: name a folder", folder_);
  }

  std::vector<std::string> run() {
    const std::string kind = "x-" + vendor_;
    for (const format::UnitRecord& unit : dump_.units()) {
      if (format::kind_of(unit.path) == kind) export_kept(unit);
    }
    for (const format::UnitRecord& unit : dump_.units()) {
      if (format::kind_of(unit.path) != "rollout") continue;
      for (const std::string& group : unit.groups) {
        const std::optional<int64_t> id = number(group);
        if (id && !done_.contains(*id)) export_own(*id);
      }
    }
    if (made_.empty()) {
      throw Error(ErrorCode::kUsage, "the dump holds nothing that can be written for " + vendor_,
                  folder_);
    }
    return std::move(made_);
  }

 private:
  /// What the places of a kept file refer to. Files of one rollout follow one another.
  NativeData& native(const format::UnitReader& unit) {
    const std::string& group = unit.record().groups.front();
    const std::optional<int64_t> id = number(group);
    if (!id || id != native_id_) native_ = id ? native_data(dump_, *id) : NativeData();
    native_id_ = id;
    if (!id) return native_;
    if (unit.find(group + "/tokens") != nullptr) {
      native_.rollouts["eval/" + group] = read_rollout_data(dump_, unit, group);
    }
    return native_;
  }

  void export_kept(const format::UnitRecord& record) {
    if (record.groups.empty()) throw Error(ErrorCode::kCorrupt, "it holds no group", record.path);
    const format::UnitReader unit = dump_.open_unit(record);
    NativeData& data = native(unit);
    RestoredFile file(dump_, unit, data);
    Value root = file.root();
    const bool rollout = dump_kind(file.tree(), root) == foreign::DumpKind::kRollout;
    const auto own = data.rollouts.find("rollout/" + record.groups.front());
    const bool evaluation = unit.find(record.groups.front() + "/tokens") != nullptr;
    if (rollout && !evaluation) {
      if (!native_id_) {
        throw Error(
            ErrorCode::kCorrupt,
            "it keeps a rollout, and its group " + record.groups.front() + " is no rollout's",
            record.path);
      }
      done_.insert(*native_id_);
    }
    if (single_ && (!rollout || evaluation)) return;
    if (!selection_.is_all()) {
      if (!rollout || evaluation || own == data.rollouts.end()) return;
      root = select(file.tree(), root, selected_samples(own->second, selection_));
    }
    write(file.name(), file.tree(), root);
  }

  void export_own(int64_t id) {
    RolloutData data = *find_rollout_data(dump_, id);
    Tree tree;
    Value root = slime_rollout(tree, data, id);
    if (!selection_.is_all()) root = select(tree, root, selected_samples(data, selection_));
    if (selection_.is_all()) add_own_part(tree, root, data, id);
    write("rollout_data/" + std::to_string(id) + ".pt", tree, root);
    if (vendor_ == "slime" && !single_) export_own_training(id, data);
  }

  /// What a rollout has that slime's samples cannot say: events, and that no finish was recorded.
  void add_own_part(Tree& tree, Value root, const RolloutData& data, int64_t id) {
    const std::string group = std::to_string(id);
    Dicts dicts(tree);
    const Value own = dicts.make();
    if (!data.finish) dicts.set(own, "absent", dicts.text("finish"));
    const format::UnitReader unit = dump_.open_unit(*dump_.find("rollout", group).front());
    const Value datasets = add_own_datasets(tree, dump_, unit, group, [&](const std::string& name) {
      return name.starts_with("events/") || is_needless_mask(unit, group + "/" + name);
    });
    if (tree.sequence(datasets).size() > 0) dicts.set(own, "datasets", datasets);
    if (tree.sequence(own).size() > 0) dicts.set(root, "rlreplay", own);
  }

  /// Whether it says of every sample that it is there, which an import would not write.
  bool is_needless_mask(const format::UnitReader& unit, const std::string& path) const {
    if (!path.ends_with("_present")) return false;
    const Buffer<std::byte> bytes = dump_.read(unit, *unit.find(path));
    return std::all_of(bytes.data(), bytes.data() + bytes.size(),
                       [](std::byte b) { return b == std::byte{1}; });
  }

  void export_own_training(int64_t id, const RolloutData& rollout) {
    OwnTraining training{id, rollout, {}};
    const std::string prefix = std::to_string(id) + "-";
    for (const format::UnitRecord& unit : dump_.units()) {
      if (format::kind_of(unit.path) != "train") continue;
      for (const std::string& group : unit.groups) {
        const auto step =
            group.starts_with(prefix) ? number(group.substr(prefix.size())) : std::nullopt;
        if (!step) continue;
        const bool fresh =
            training.steps.emplace(*step, read_train_data(dump_, dump_.open_unit(unit), group))
                .second;
        if (fresh) continue;
        throw Error(ErrorCode::kUnsupported,
                    "step " + group + " was recorded by several ranks: export it as jsonl");
      }
    }
    if (training.steps.empty() || !rollout.prompt_length) return;
    std::optional<std::set<uint64_t>> selected;
    if (!selection_.is_all()) selected = selected_samples(rollout, selection_);
    Tree tree;
    const Value root = slime_train(tree, dump_, training, selected);
    if (tree.sequence(*tree.find(root, "samples")).size() == 0) return;
    write("train_data/" + std::to_string(id) + ".pt", tree, root);
  }

  void write(const std::string& name, const Tree& tree, Value root) {
    namespace fs = std::filesystem;
    // A name comes from the dump, which may be anybody's.
    const fs::path relative = fs::path(name).lexically_normal();
    const bool inside = relative.is_relative() && !relative.empty() && *relative.begin() != "..";
    if (!inside)
      throw Error(ErrorCode::kCorrupt, "a kept file's name leads out of the folder", name);
    if (!relative.has_filename() || relative == ".")
      throw Error(ErrorCode::kCorrupt, "a kept file's name is no file's", name);
    const fs::path path = single_ ? fs::path(folder_) : fs::path(folder_) / relative;
    if (!written_.insert(path.string()).second)
      throw Error(ErrorCode::kCorrupt, "the dump keeps two files of one name", name);
    if (single_) {
      make_folders({}, path.parent_path());
    } else {
      make_folders(folder_, relative.parent_path());
    }
    write_torch_file(path.string(), tree, root);
    made_.push_back(path.string());
  }

  const DumpReader& dump_;
  std::string vendor_;
  std::string folder_;
  bool single_;
  const Selection& selection_;
  NativeData native_;
  std::optional<int64_t> native_id_;
  std::set<int64_t> done_;
  std::set<std::string> written_;
  std::vector<std::string> made_;
};

}  // namespace

std::set<uint64_t> selected_samples(const RolloutData& data, const Selection& selection) {
  std::set<uint64_t> groups = selection.groups.value_or(std::set<uint64_t>());
  std::set<uint64_t> chosen;
  const auto group = [&](size_t s) -> std::optional<uint64_t> {
    if (!data.group_id || !data.group_id->has(s)) return std::nullopt;
    return data.group_id->values[s];
  };
  for (size_t s = 0; s < data.size(); ++s) {
    if (!selection.samples || !selection.samples->contains(data.sample_id[s])) continue;
    chosen.insert(data.sample_id[s]);
    if (const auto of_sample = group(s)) groups.insert(*of_sample);
  }
  for (size_t s = 0; s < data.size(); ++s) {
    const auto of_sample = group(s);
    const bool taken = selection.is_all() || (of_sample && groups.contains(*of_sample));
    if (taken) chosen.insert(data.sample_id[s]);
  }
  return chosen;
}

NativeData native_data(const DumpReader& dump, int64_t rollout_id) {
  NativeData data;
  const std::string id = std::to_string(rollout_id);
  if (auto rollout = find_rollout_data(dump, rollout_id)) {
    data.rollouts.emplace("rollout/" + id, std::move(*rollout));
  }
  for (const format::UnitRecord& unit : dump.units()) {
    if (format::kind_of(unit.path) != "train") continue;
    for (const std::string& group : unit.groups) {
      if (!group.starts_with(id + "-")) continue;
      data.trains.emplace("train/" + group, read_train_data(dump, dump.open_unit(unit), group));
    }
  }
  return data;
}

std::vector<std::string> export_torch(const DumpReader& dump, const std::string& vendor,
                                      const std::string& output, const Selection& selection) {
  return Exporter(dump, vendor, output, selection).run();
}

}  // namespace rlreplay::replay
