#include "src/replay/exchange/import.h"

#include <algorithm>
#include <deque>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "format/canonical.h"
#include "format/dump_place.h"
#include "format/dump_writer.h"
#include "format/foreign/dump_check.h"
#include "format/foreign/framework.h"
#include "format/group_name.h"
#include "src/base/shell.h"
#include "src/base/words.h"
#include "src/replay/exchange/any_dump.h"
#include "src/replay/exchange/contradictions.h"
#include "src/replay/exchange/file_findings.h"
#include "src/replay/exchange/import_policy_loss.h"
#include "src/replay/exchange/import_rollout.h"
#include "src/replay/exchange/import_train.h"
#include "src/replay/exchange/jsonl.h"
#include "src/replay/exchange/kept_file.h"
#include "src/replay/exchange/own_datasets.h"
#include "src/replay/exchange/rank_files_check.h"
#include "src/replay/exchange/rollout_copies.h"
#include "src/replay/exchange/source_files.h"
#include "src/replay/launch/provenance.h"
#include "src/replay/record/content_root.h"
#include "src/replay/record/import_findings.h"
#include "src/replay/record/imported_samples.h"
#include "src/replay/record/missing_ranks.h"
#include "src/replay/record/run_gaps.h"
#include "src/replay/record/step_id.h"

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

/// Of `rollout/3.h5` and `train/3-0/rank1.h5`: `3` and `3-0`.
std::string group_of(const std::string& unit) {
  const size_t begin = unit.find('/') + 1;
  return unit.substr(begin, unit.find_first_of("/.", begin) - begin);
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
    throw Error(error.code(), error.what(), where);
  }
}

/// Reads the files of a run one after the other into a dump.
class Importer {
 public:
  Importer(const ImportOptions& options, const std::function<void(const std::string&)>& progress)
      : options_(options),
        progress_(progress),
        place_(options.output, options.force,
               options.temporary ? format::DumpPlace::Writer::kTemporary
                                 : format::DumpPlace::Writer::kOneGo) {}

  ImportReport run() {
    const bool lines = options_.format == "jsonl" ||
                       (options_.format.empty() && options_.paths.front().ends_with(".jsonl"));
    return lines ? run_jsonl() : run_torch();
  }

 private:
  ImportReport run_jsonl() {
    vendor_ = "jsonl";
    if (options_.paths.size() > 1) {
      throw Error(ErrorCode::kUsage, "one JSONL file holds a run", options_.paths[1]);
    }
    const std::string& path = options_.paths.front();
    if (progress_) progress_(path);
    JsonlFile file(path);
    report_.files.push_back({path, "JSONL, a sample a line"});
    const int64_t ranks = ranks_of_steps(file);
    for (const int64_t id : file.rollouts()) {
      const auto rollout = file.rollout(id);
      count(*rollout);
      const std::string group = std::to_string(id);
      claim("rollout/" + group + ".h5", path);
      writer(ranks).append("rollout/" + group + ".h5", to_datasets(rollout, group));
    }
    for (const std::string& unit : file.steps()) {
      claim(unit, path);
      writer(ranks).append(unit, to_datasets(file.step(unit), group_of(unit)));
    }
    with_inputs_ = file.with_inputs();
    write_inputs();
    return finish(writer(ranks));
  }

  /// How many ranks there are; counts the steps. Errors: kIncomplete where one lacks a rank.
  int64_t ranks_of_steps(const JsonlFile& file) {
    std::map<std::string, std::set<int64_t>> steps;
    int64_t ranks = 1;
    for (const std::string& unit : file.steps()) {
      const int64_t rank = format::rank_of(unit);
      steps[group_of(unit)].insert(rank);
      ranks = std::max(ranks, rank + 1);
    }
    for (const auto& [step, there] : steps) {
      const std::string missing = missing_ranks(there, ranks);
      if (missing.empty()) continue;
      throw Error(ErrorCode::kIncomplete,
                  "of " + std::to_string(ranks) + " ranks, no line of step " + step +
                      " is of these: " + missing +
                      "; add their lines, or where one has no samples a rlreplay.step/1 with the "
                      "scalars {}",
                  options_.paths.front());
    }
    report_.steps = steps.size();
    return ranks;
  }

  ImportReport run_torch() {
    auto sources = find_sources(options_.paths, ".pt");
    if (sources.empty()) refuse_nothing_found();
    refuse_other_files();
    check_ranks(sources);
    note_others();
    // Rollouts and train dumps first: they say which framework the other files belong to.
    std::stable_partition(sources.begin(), sources.end(), [](const auto& family) {
      const std::string& name = family.front().name;
      return name.starts_with("rollout_data/") || name.starts_with("train_data/");
    });
    for (const auto& family : sources) read_policy_loss(family);
    for (const auto& family : sources) add_family(family);
    for (auto& [id, reads] : single_ranks_) add_train(reads);
    note_policy_loss();
    write_inputs();
    for (foreign::Problem& found : file_findings_.finish()) contradictions_.add(std::move(found));
    if (!contradictions_.empty()) writer().append(kFindingsUnit, contradictions_.datasets());
    return finish(writer());
  }

  ImportReport finish(format::DumpWriter& writer) {
    note_gaps();
    report_.root =
        writer.seal({.complete = true, .unstable = provenance_.json(), .derived_from = {}});
    writer_.reset();
    place_.settle();
    return std::move(report_);
  }

  /// Rollouts and steps that are not there, though later ones are.
  void note_gaps() {
    std::set<int64_t> generated, trained;
    std::map<int64_t, std::set<int64_t>> steps;
    for (const auto& [unit, path] : report_.sources) {
      const auto name = format::GroupName::parse(group_of(unit));
      if (!name || unit.starts_with("x-")) continue;
      (name->step ? trained : generated).insert(name->rollout);
      if (name->step) steps[name->rollout].insert(*name->step);
    }
    note(options_.paths.front(), check_rollouts(generated, trained));
    note(options_.paths.front(), check_steps(steps));
  }

  /// Trajectories, dashboards, tokenizers: an import that dropped them silently would be believed.
  void note_others() {
    constexpr size_t kMostNamed = 8;
    std::string names;
    size_t left = 0;
    for (const auto& [name, count] : other_files(options_.paths, ".pt")) {
      if (++left > kMostNamed) continue;
      names += (names.empty() ? "" : ", ") + name;
      if (count > 1) names += " (" + std::to_string(count) + " files)";
    }
    if (names.empty()) return;
    if (left > kMostNamed) names += " and " + std::to_string(left - kMostNamed) + " more";
    report_.findings.push_back(
        {"not-imported",
         "only .pt files are read; these stay behind, and an export will not "
         "have them: " +
             names,
         options_.paths.front()});
  }

  /// A file that was named and would not be read.
  void refuse_other_files() const {
    for (const std::string& path : options_.paths) {
      if (path.ends_with(".pt") || std::filesystem::is_directory(path)) continue;
      throw Error(ErrorCode::kUsage,
                  "this is no .pt file, and nothing of it would be read: leave it out", path);
    }
  }

  [[noreturn]] void refuse_nothing_found() const {
    const std::string& first = options_.paths.front();
    if (is_native_dump(first)) {
      throw Error(ErrorCode::kUsage,
                  "this is a dump of rlreplay already, and an import reads files of others: "
                  "rlreplay show " +
                      shell_word(first),
                  first);
    }
    std::string found = "there is no dump of rlreplay and there are no .pt files here";
    if (!find_sources(options_.paths, ".parquet").empty()) {
      found +=
          "; Parquet files, as TRL and verl write them, hold texts without token ids and "
          "log-probabilities: nothing of them can be replayed";
    } else if (!find_sources(options_.paths, ".jsonl").empty()) {
      found += "; of JSONL name the one file (rlreplay import --help says what it holds)";
    }
    throw Error(ErrorCode::kUsage, found, options_.paths.front());
  }

  /// Before training data: what these files say goes into its units.
  void read_policy_loss(const std::vector<SourceFile>& sources) {
    for (const SourceFile& source : sources) {
      if (!source.name.starts_with("policy_loss_debug/")) continue;
      const TorchFile file(source.path);
      if (identify(file).kind == DumpKind::kPolicyLoss) policy_loss_.add(file, source.name);
      file.check_unchanged();
    }
  }

  void note_policy_loss() {
    for (const auto& [file, count] : policy_loss_.left()) {
      report_.findings.push_back(
          {"policy-loss-unplaced",
           counted(count, "row") +
               " fit no sample of the training data: they are kept in their file alone",
           file});
    }
    for (const auto& [step, count] : without_policy_loss_) {
      report_.findings.push_back({"policy-loss-missing",
                                  "no row of policy_loss_debug fits " + counted(count, "sample") +
                                      ": a file of the step is missing, or is another's",
                                  "step " + step});
    }
  }

  /// What computes log-probabilities from tokens must not take these samples (check_inputs).
  void write_inputs() {
    size_t samples = 0;
    for (const auto& [rollout, ids] : with_inputs_) {
      if (ids.empty()) continue;
      samples += ids.size();
      const std::string group = std::to_string(rollout);
      const std::vector<Dataset> datasets = {format::dataset_of<uint64_t>(
          group + "/sample_id", DType::kU64, {ids.size()}, {ids.begin(), ids.end()})};
      writer().append(std::string(kInputsKind) + "/" + group + ".h5", datasets);
    }
    if (samples == 0) return;
    report_.findings.push_back(
        {"inputs",
         counted(samples, "sample") +
             " were made from more than their tokens (images, sound): that is kept for an "
             "export, and no model here reads it, so train refuses them",
         options_.paths.front()});
  }

  void count(const format::RolloutData& data) {
    ++report_.rollouts;
    report_.samples += data.size();
    report_.tokens += data.tokens.size();
  }

  /// The writer begins with the first file that could be read.
  format::DumpWriter& writer(int64_t ranks = 1) {
    if (writer_) return *writer_;
    format::JsonObject source;
    source.text("imported", vendor_);
    format::JsonObject meta;
    meta.number("ranks", static_cast<uint64_t>(ranks)).json("source", source.str());
    if (!options_.launch.empty()) meta.json("launch", options_.launch);
    format::WriterOptions settings;
    settings.threads = options_.threads;
    if (options_.temporary) settings.system = std::make_shared<format::UnsyncedSystem>();
    writer_.emplace(format::DumpWriter::create(place_.path(), meta.str(), settings));
    return *writer_;
  }

  /// What one file says against itself: listed in part, kept whole.
  void check_file(const SourceFile& source, const TorchFile& file) {
    note(source.path, check_dump(file.tree(), file.root(), [&](const foreign::Problem& found) {
           if (!is_contradiction(found)) return;
           file_findings_.add(source.name, contradictions_.tail(source.name, file), found);
         }));
  }

  /// Whether a file is what its name says.
  void check_names(const SourceFile& source, const TorchFile& file, DumpKind kind) {
    std::vector<foreign::Problem> problems = check_name(source.name, file);
    if (kind == DumpKind::kNone && names_dump(source.name)) {
      problems.push_back(
          {"name-mismatch", "the file has the name of a dump, and holds none", source.path});
    }
    for (foreign::Problem& problem : problems) {
      report_.findings.push_back(problem);
      contradictions_.add(std::move(problem), source.name, file);
    }
  }

  void add_family(const std::vector<SourceFile>& sources) {
    std::deque<Read> trains;
    for (const SourceFile& source : sources) {
      if (progress_) progress_(source.path);
      TorchFile file(source.path);
      const DumpIdentity identity = identify(file);
      report_.files.push_back({source.path, identity.layout});
      note(source.path, file.problems());
      check_file(source, file);
      check_names(source, file, identity.kind);
      Read read{source, std::move(file), identity};
      if (vendor_.empty()) vendor_ = vendor(identity);
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

  void note(const std::string& path, const std::vector<foreign::Problem>& problems) {
    for (const foreign::Problem& problem : problems) {
      if (problem.code == "not-a-dump") continue;  // its layout says so
      const bool named = problem.where.find(path) != problem.where.npos;
      report_.findings.push_back(
          {problem.code, problem.message, named ? problem.where : path + ": " + problem.where});
    }
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
      note(read.source.path, {problem});
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
    throw Error(ErrorCode::kCorrupt, "rollout_id is missing or not an integer", read.source.path);
  }

  void claim(const std::string& unit, const std::string& path) {
    const auto [it, fresh] = report_.sources.emplace(unit, path);
    if (fresh) return;
    throw Error(
        ErrorCode::kUsage,
        "this file and " + it->second + " hold the same (" + unit + "): import one run at a time",
        path);
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
    writer().append(unit, kept);
  }

  /// A rollout of the run, or one of its evaluation: that is kept aside, in its own unit.
  void add_rollout(Read& read) {
    const bool evaluation = last_name(read.source.name).starts_with("eval_");
    const std::string group = std::to_string(rollout_id(read));
    const std::string owner = (evaluation ? "eval/" : "rollout/") + group;
    const TorchFile* const file = &read.file;
    ImportedRollout made = within(
        std::span(&file, 1), [&] { return import_rollout(read.file, owner, options_.reward_key); });
    note(read.source.path, made.findings);
    for (const foreign::Problem& finding : made.findings) {
      if (!is_replaced_id(finding)) continue;
      contradictions_.add({finding.code, finding.message, read.source.name});
    }
    std::vector<Dataset> datasets = to_datasets(made.data, group);
    const std::string unit = "rollout/" + group + ".h5";
    within(std::span(&file, 1), [&] { add_own(unit, datasets, made.own); });
    if (evaluation) return keep(read, made.replacements, std::move(datasets));
    claim(unit, read.source.path);
    with_inputs_[made.rollout_id].merge(made.with_inputs);
    copies_.add(made, read.file);
    count(*made.data);
    writer().append(unit, datasets);
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
  static void check_whole(const std::string& path, std::span<const TorchFile* const> files) {
    for (const foreign::Problem& problem : check_rank_files(files)) {
      if (problem.code != "rank-missing") continue;
      throw Error(ErrorCode::kIncomplete, problem.where + ": " + problem.message, path);
    }
  }

  void add_train(const std::deque<Read>& reads) {
    std::vector<const TorchFile*> files;
    for (const Read& read : reads) files.push_back(&read.file);
    check_whole(reads.front().source.path, files);
    ImportedTrain made = within(files, [&] { return import_train(files); });
    note(reads, made.findings);
    note(reads, copies_.compare(made.rollout_id, files));
    with_inputs_[made.rollout_id].merge(made.with_inputs);
    for (const auto& [step, data] : made.steps) {
      const std::string group = std::to_string(made.rollout_id) + "-" + std::to_string(step);
      const std::string unit = "train/" + group + "/rank0.h5";
      claim(unit, reads.front().source.path);
      const size_t without = policy_loss_.complete(*data);
      if (without > 0) without_policy_loss_[StepId{made.rollout_id, step}.name()] = without;
      std::vector<Dataset> datasets = to_datasets(data, group);
      if (const auto own = made.own.find(step); own != made.own.end()) {
        within(files, [&] { add_own(unit, datasets, own->second); });
      }
      writer().append(unit, datasets);
      ++report_.steps;
    }
    for (size_t i = 0; i < reads.size(); ++i) keep(reads[i], made.replacements[i], {});
  }

  const ImportOptions& options_;
  const std::function<void(const std::string&)>& progress_;
  format::DumpPlace place_;
  std::optional<format::DumpWriter> writer_;
  std::string vendor_;
  std::map<int64_t, std::deque<Read>> single_ranks_;
  std::map<int64_t, std::set<uint64_t>> with_inputs_;  // by rollout
  RolloutCopies copies_;
  PolicyLossRows policy_loss_;
  std::map<std::string, size_t> without_policy_loss_;  // samples by step
  Contradictions contradictions_;
  FileFindings file_findings_;
  ImportReport report_;
  Provenance provenance_;
};

}  // namespace

JsonLine import_line(std::string_view schema, const std::string& dump, const ImportReport& report) {
  return JsonLine()
      .text("schema", schema)
      .text("dump", dump)
      .text("root", report.root.hex())
      .text("content", content_root(dump).hex())
      .integer("rollouts", static_cast<int64_t>(report.rollouts))
      .integer("steps", static_cast<int64_t>(report.steps))
      .integer("samples", static_cast<int64_t>(report.samples));
}

std::string findings_text(const ImportReport& report) {
  std::string out;
  std::map<std::pair<std::string, std::string>, std::vector<const foreign::Problem*>> alike;
  for (const foreign::Problem& finding : report.findings) {
    alike[{std::string(finding.code), finding.message}].push_back(&finding);
  }
  for (const auto& [what, findings] : alike) {
    out += "finding " + what.first + ": " + what.second + " (" + findings.front()->where;
    if (findings.size() > 1) out += ", and " + std::to_string(findings.size() - 1) + " more";
    out += ")\n";
  }
  return out;
}

ImportReport import_dump(const ImportOptions& options,
                         const std::function<void(const std::string& path)>& progress) {
  return Importer(options, progress).run();
}

}  // namespace rlreplay::replay
