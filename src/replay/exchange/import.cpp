#include "src/replay/exchange/import.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <optional>
#include <span>

#include "format/foreign/dump_check.h"
#include "format/foreign/framework.h"
#include "format/foreign/tree_difference.h"
#include "src/base/step_id.h"
#include "src/replay/exchange/contradictions.h"
#include "src/replay/exchange/import_lines.h"
#include "src/replay/exchange/import_policy_loss.h"
#include "src/replay/exchange/import_rollout.h"
#include "src/replay/exchange/import_sources.h"
#include "src/replay/exchange/import_train.h"
#include "src/replay/exchange/imported_dump.h"
#include "src/replay/exchange/kept_file.h"
#include "src/replay/exchange/own_datasets.h"
#include "src/replay/exchange/rank_files_check.h"
#include "src/replay/exchange/rollout_copies.h"
#include "src/replay/record/import_findings.h"

namespace rlreplay::replay {
namespace {

using foreign::DumpIdentity;
using foreign::DumpKind;
using foreign::TorchFile;
using format::Dataset;

/// A parsed file, and what it is to its run.
struct Read {
  SourceFile source;
  TorchFile file;
  DumpIdentity identity;
};

std::string last_name(const std::string& name) {
  const size_t slash = name.rfind('/');
  return slash == name.npos ? name : name.substr(slash + 1);
}

/// Lets errors say in which file they are: the first, where they name none of them.
template <class Function>
auto within(std::span<const TorchFile* const> files, const Function& function) {
  try {
    return function();
  } catch (const Error& error) {
    const auto names = [&](const TorchFile* file) {
      return error.where().find(file->path()) != std::string::npos;
    };
    if (std::ranges::any_of(files, names)) throw;
    const std::string& path = files.front()->path();
    const std::string where = error.where().empty() ? path : path + ": " + error.where();
    throw error.at(where);
  }
}

/// Reads a run's files of torch.save one after the other into a dump.
class Importer {
 public:
  Importer(const ImportOptions& options, const ImportProgress& progress, ImportedDump& dump)
      : options_(options), progress_(progress), dump_(dump) {}

  void run() {
    const auto sources = sources_of_import(options_.paths);
    if (auto others = left_behind(options_.paths)) report_.findings.push_back(std::move(*others));
    for (const auto& family : sources) read_policy_loss(family);
    for (const auto& family : sources) add_family(family);
    for (auto& [id, reads] : single_ranks_) add_train(reads);
    note_policy_loss();
    dump_.append_inputs();
    if (!contradictions_.empty()) dump_.append(kFindingsUnit, contradictions_.datasets());
  }

 private:
  /// Reads the files of policy_loss_debug, before training data: what they say goes into its units.
  void read_policy_loss(const std::vector<SourceFile>& sources) {
    for (const SourceFile& source : sources) {
      if (!source.name.starts_with("policy_loss_debug/")) continue;
      const TorchFile file(source.path);
      if (identify(file).kind == DumpKind::kPolicyLoss) {
        policy_loss_.add(file, source.name);
        policy_loss_paths_[source.name] = source.path;
      }
      file.check_unchanged();
    }
  }

  void note_policy_loss() {
    std::optional<TorchFile> read;  // once for all that is found of it
    for (auto& [name, row, found] : policy_loss_.findings()) {
      if (name.empty()) {
        if (is_unplaced_term(found)) contradictions_.add(found);  // told again by a reader
        report_.findings.push_back(std::move(found));
        continue;
      }
      const std::string& path = policy_loss_paths_.at(name);
      if (!read || read->path() != path) read.emplace(path);
      dump_.note(path, {found});
      contradictions_.add(std::move(found), name, *read);
    }
  }

  /// What one file says against itself: listed in part, kept whole.
  void check_file(const SourceFile& source, const TorchFile& file) {
    dump_.note(source.path,
               check_dump(file.tree(), file.root(), [&](const foreign::Problem& found) {
                 if (is_contradiction(found)) contradictions_.add(found, source.name, file);
               }));
  }

  /// Notes where a file is not what its name says.
  /// Errors: kCorrupt where it has the name of a dump, and is none.
  void check_names(const SourceFile& source, const TorchFile& file, DumpKind kind) {
    if (kind == DumpKind::kNone && names_dump(source.name)) throw no_dump(source, file);
    for (foreign::Problem& problem : check_name(source.name, file)) {
      report_.findings.push_back(problem);
      misnamed_.emplace(source.path, problem.message);
      contradictions_.add(std::move(problem), source.name, file);
    }
  }

  static Error no_dump(const SourceFile& source, const TorchFile& file) {
    const auto found = check_dump(file.tree(), file.root());
    return {ErrorCode::kCorrupt,
            "the file has the name of a dump, and holds none" +
                (found.empty() ? "" : ": " + found.front().message),
            source.path};
  }

  /// Refuses files that do not go together for what the name of one says, where it holds something
  /// else.
  /// Errors: that, of the kind that is given; none where all names are true.
  void refuse_misnamed(std::span<const std::string> paths, ErrorCode kind) const {
    for (const std::string& path : paths) {
      const auto wrong = misnamed_.find(path);
      if (wrong != misnamed_.end()) throw Error(kind, wrong->second, path);
    }
  }

  /// Adds the files of one rollout's ranks. Where they do not fit together, and the name of one is
  /// not what it holds, the error says that.
  void add_family(const std::vector<SourceFile>& sources) {
    try {
      add_files(sources);
    } catch (const Error& error) {
      std::vector<std::string> paths;
      for (const SourceFile& source : sources) paths.push_back(source.path);
      const bool of_files =
          error.code() == ErrorCode::kCorrupt || error.code() == ErrorCode::kIncomplete;
      if (of_files) refuse_misnamed(paths, error.code());
      throw;
    }
  }

  void add_files(const std::vector<SourceFile>& sources) {
    std::deque<Read> trains;
    for (const SourceFile& source : sources) {
      if (progress_) progress_(source.path);
      TorchFile file(source.path);
      const DumpIdentity identity = identify(file);
      report_.files.push_back({source.path, identity.layout});
      dump_.note(source.path, file.problems());
      check_file(source, file);
      check_names(source, file, identity.kind);
      Read read{source, std::move(file), identity};
      if (vendor_.empty()) dump_.made_by(vendor_ = vendor(identity));
      if (identity.kind == DumpKind::kRollout) {
        add_rollout(read);
      } else if (identity.kind == DumpKind::kNone || identity.kind == DumpKind::kPolicyLoss) {
        keep(read, {}, {});
      } else {
        trains.push_back(std::move(read));
      }
    }
    if (trains.empty()) return;
    const bool whole =
        trains.front().file.tree().find(trains.front().file.root(), "format_version") != nullptr;
    if (sources.size() > 1 || whole || names_rank(sources.front().name)) return add_train(trains);
    // A rank's file under a name of its own: others of its rollout may follow.
    const int64_t id = rollout_id(trains.front());
    single_ranks_[id].push_back(std::move(trains.front()));
  }

  /// What a file is, and whose; another form that was asked for is named too.
  /// Errors: kUnsupported for a version that is not known.
  DumpIdentity identify(const TorchFile& file) const {
    if (const auto wrong = foreign::unknown_version(file.tree(), file.root())) {
      throw Error(ErrorCode::kUnsupported, *wrong, file.path());
    }
    DumpIdentity identity = identify_dump(file.tree(), file.root());
    if (identity.kind == DumpKind::kNone) identity.layout = "no dump: kept as it is";
    if (!options_.format.empty()) identity.layout += ", taken as " + options_.format;
    return identity;
  }

  std::string vendor(const DumpIdentity& identity) const {
    if (!options_.format.empty()) return options_.format;
    const bool known = identity.framework != foreign::Framework::kUnknown;
    if (known) return std::string(to_string(identity.framework));
    return vendor_.empty() ? "unknown" : vendor_;
  }

  /// Findings of the files of a rollout's ranks. Those that contradict themselves are kept in the
  /// dump, where files have their names in the run; likewise ids that are not the file's.
  void note(const std::deque<Read>& reads, const std::vector<foreign::Problem>& problems) {
    for (const foreign::Problem& problem : problems) {
      const auto of = std::ranges::find_if(reads, [&](const Read& read) {
        const std::string& path = read.source.path;
        return problem.where == path || problem.where.starts_with(path + ": ");
      });
      const Read& read = of == reads.end() ? reads.front() : *of;
      dump_.note(read.source.path, {problem});
      if (is_unjudged(problem)) contradictions_.add_note(problem, read.source.name, read.file);
      if (!is_contradiction(problem)) continue;
      if (of == reads.end()) {
        contradictions_.add(problem);
      } else {
        contradictions_.add(problem, read.source.name, read.file);
      }
    }
  }

  static int64_t rollout_id(const Read& read) {
    if (const auto id = read.file.tree().integer(read.file.root(), "rollout_id")) return *id;
    const auto* value = read.file.tree().find(read.file.root(), "rollout_id");
    throw Error(ErrorCode::kCorrupt,
                unlike_text(read.file.tree(), "rollout_id", value, "not an integer"),
                read.source.path);
  }

  /// Notes that a file gives this unit. Errors: those of ImportedDump, or of the name of one of the
  /// two files.
  void claim(const std::string& unit, const std::string& path) {
    const auto other = report_.sources.find(unit);
    if (other != report_.sources.end()) {
      const std::string both[] = {path, other->second};
      refuse_misnamed(both, ErrorCode::kCorrupt);
    }
    dump_.claim(unit, path);
  }

  void keep(const Read& read, const foreign::Replacements& replacements,
            std::vector<Dataset> datasets) {
    const auto id = read.file.tree().integer(read.file.root(), "rollout_id");
    const std::string group = id && *id >= 0 ? std::to_string(*id) : "data";
    const std::string unit = kept_path(vendor(read.identity), read.source.name);
    claim(unit, read.source.path);
    std::vector<Dataset> kept = keep_file(read.file, replacements, group, read.source.name);
    read.file.check_unchanged();
    kept.insert(kept.end(), std::make_move_iterator(datasets.begin()),
                std::make_move_iterator(datasets.end()));
    dump_.append(unit, kept);
  }

  /// A rollout of the run, or one of its evaluation: that is kept aside, in its own unit.
  void add_rollout(Read& read) {
    const bool evaluation = last_name(read.source.name).starts_with("eval_");
    const std::string group = std::to_string(rollout_id(read));
    const std::string owner = (evaluation ? "eval/" : "rollout/") + group;
    const TorchFile* const file = &read.file;
    ImportedRollout made = within(
        std::span(&file, 1), [&] { return import_rollout(read.file, owner, options_.reward_key); });
    dump_.note(read.source.path, made.findings);
    for (const foreign::Problem& finding : made.findings) {
      if (!is_replaced_id(finding)) continue;
      contradictions_.add({finding.code, finding.message, read.source.name});
    }
    std::vector<Dataset> datasets = to_datasets(made.data, group);
    const std::string unit = "rollout/" + group + ".h5";
    within(std::span(&file, 1), [&] { add_own(unit, datasets, made.own); });
    if (evaluation) return keep(read, made.replacements, std::move(datasets));
    claim(unit, read.source.path);
    dump_.add_inputs(made.rollout_id, std::move(made.with_inputs));
    copies_.add(made, read.file);
    generated_[made.rollout_id] = made.data->size();
    dump_.count(made.rollout_id, *made.data);
    dump_.append(unit, datasets);
    keep(read, made.replacements, {});
  }

  /// Datasets that a file holds under their own names, beside those of its columns.
  static void add_own(const std::string& unit, std::vector<Dataset>& datasets,
                      const std::vector<Dataset>& own) {
    for (const Dataset& dataset : own) {
      const bool there = std::ranges::any_of(
          datasets, [&](const Dataset& other) { return other.path == dataset.path; });
      if (there) {
        throw Error(ErrorCode::kCorrupt, "a dataset is there twice", dataset.path);
      }
      datasets.push_back(dataset);
    }
    if (!own.empty()) check_with_own(unit, datasets);
  }

  /// A step of which a rank is missing would be taken for a smaller one.
  static void check_whole(const std::string& path, std::span<const TorchFile* const> files,
                          std::optional<size_t> generated) {
    for (const foreign::Problem& problem : check_rank_files(files, generated)) {
      if (problem.code != "rank-missing") continue;
      throw Error(ErrorCode::kIncomplete, problem.where + ": " + problem.message, path);
    }
  }

  /// Throws the reason why files do not go together where it is a column of other samples.
  static void refuse_columns(const std::vector<const TorchFile*>& files) {
    for (const TorchFile* file : files) {
      for (const foreign::Problem& found : check_dump(file->tree(), file->root())) {
        if (!foreign::is_of_columns(found)) continue;
        throw Error(ErrorCode::kCorrupt, found.message, file->path() + ": " + found.where);
      }
    }
  }

  /// How many samples the file's rollout has, where that was read.
  std::optional<size_t> generated_samples(const TorchFile& file) const {
    const auto id = file.tree().integer(file.root(), "rollout_id");
    const auto rollout = id ? generated_.find(*id) : generated_.end();
    return rollout == generated_.end() ? std::nullopt : std::optional(rollout->second);
  }

  /// Puts the training data of a rollout's ranks together.
  /// Errors: those of check_whole and import_train, or of a file's name or columns.
  ImportedTrain put_together(const std::vector<const TorchFile*>& files) const {
    try {
      const std::optional<size_t> generated = generated_samples(*files.front());
      check_whole(files.front()->path(), files, generated);
      return within(files, [&] { return import_train(files, generated); });
    } catch (const Error& error) {
      std::vector<std::string> paths;
      for (const TorchFile* file : files) paths.push_back(file->path());
      refuse_misnamed(paths, error.code());
      refuse_columns(files);
      throw;
    }
  }

  void add_train(const std::deque<Read>& reads) {
    std::vector<const TorchFile*> files;
    for (const Read& read : reads) files.push_back(&read.file);
    ImportedTrain made = put_together(files);
    note(reads, made.findings);
    note(reads, copies_.compare(made.rollout_id, files));
    dump_.add_inputs(made.rollout_id, std::move(made.with_inputs));
    for (const auto& [step, data] : made.steps) {
      const StepId id{made.rollout_id, step};
      const std::string group = id.group();
      const std::string unit = "train/" + group + "/rank0.h5";
      claim(unit, reads.front().source.path);
      policy_loss_.complete(*data, id.name(), made.cut);
      std::vector<Dataset> datasets = to_datasets(data, group);
      if (const auto own = made.own.find(step); own != made.own.end()) {
        within(files, [&] { add_own(unit, datasets, own->second); });
      }
      dump_.append(unit, datasets);
      dump_.add_trained(made.rollout_id, data->sample_id);
      ++report_.steps;
    }
    for (size_t i = 0; i < reads.size(); ++i) keep(reads[i], made.replacements[i], {});
  }

  const ImportOptions& options_;
  const ImportProgress& progress_;
  ImportedDump& dump_;
  ImportReport& report_ = dump_.report();
  std::string vendor_;  // of the first file
  std::map<int64_t, std::deque<Read>> single_ranks_;
  std::map<std::string, std::string> misnamed_;  // files by path, and what their names say
  RolloutCopies copies_;
  std::map<int64_t, size_t> generated_;  // samples, by rollout
  PolicyLossRows policy_loss_;
  std::map<std::string, std::string> policy_loss_paths_;  // by name
  Contradictions contradictions_;
};

}  // namespace

ImportReport import_dump(const ImportOptions& options, const ImportProgress& progress) {
  ImportedDump dump(options);
  const bool lines = options.format == "jsonl" ||
                     (options.format.empty() && options.paths.front().ends_with(".jsonl"));
  if (lines) {
    import_lines(options.paths, progress, dump);
  } else {
    Importer(options, progress, dump).run();
  }
  return dump.finish();
}

}  // namespace rlreplay::replay
