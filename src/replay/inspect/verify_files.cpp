#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <set>

#include "format/foreign/dump_check.h"
#include "format/foreign/torch_file.h"
#include "src/base/words.h"
#include "src/replay/exchange/any_dump.h"
#include "src/replay/exchange/import_check.h"
#include "src/replay/exchange/import_sources.h"
#include "src/replay/exchange/own_datasets.h"
#include "src/replay/exchange/rank_files_check.h"
#include "src/replay/exchange/source_files.h"
#include "src/replay/inspect/dump_audit.h"
#include "src/replay/inspect/unit_audit.h"
#include "src/replay/inspect/verified.h"
#include "src/replay/record/import_findings.h"
#include "src/replay/record/run_gaps.h"

namespace rlreplay::replay {
namespace {

using foreign::DumpKind;
using foreign::TorchFile;
using Problems = std::vector<VerifyProblem>;

bool is_refused(TorchFile& file) {
  try {
    check_importable(file);
    return false;
  } catch (const Error& error) {
    return error.code() == ErrorCode::kCorrupt;
  }
}

/// What one file says against itself; nothing where it cannot be read. `refused`: no import gets
/// past what is named. Errors: those of the machine.
std::unique_ptr<TorchFile> check_file(const std::string& path, Problems& problems, bool& refused) {
  try {
    auto file = std::make_unique<TorchFile>(path);
    add_problems(file->problems(), path, problems);
    const auto found = check_dump(file->tree(), file->root());
    add_problems(found, path, problems);
    if (found.empty()) check_importable(*file);
    refused = refused || (!found.empty() && is_refused(*file));
    return file;
  } catch (const Error& error) {
    if (!is_refused_file(error)) throw;
    refused = refused || !is_outside_support(error);
    VerifyProblem& found = problems.emplace_back(unreadable_problem(error, path));
    if (found.path.starts_with(path + ": ")) {
      found.dataset = found.path.substr(path.size() + 2);
      found.path = path;
    }
    return nullptr;
  }
}

/// The files of a run of another trainer against each other.
class RunFiles {
 public:
  /// Files of one rollout and kind. The ranks must fit together.
  void add(const std::vector<std::unique_ptr<TorchFile>>& family, const std::string& path,
           Problems& problems) {
    std::vector<const TorchFile*> train;
    std::optional<size_t> generated = 0;  // samples of the rollout that is trained on
    for (const auto& file : family) {
      const DumpKind kind = dump_kind(file->tree(), file->root());
      const foreign::Value* id = file->tree().find(file->root(), "rollout_id");
      if (id == nullptr || id->kind != foreign::Kind::kInt) continue;
      if (kind == DumpKind::kRollout) add_rollout(id->integer, *file, problems);
      if (kind != DumpKind::kTrainRank && kind != DumpKind::kTrainSamples) continue;
      trained_.insert(id->integer);
      const auto rollout = rollouts_.find(id->integer);
      generated = rollout == rollouts_.end() ? std::nullopt
                  : generated                ? std::optional(rollout->second.samples)
                                             : generated;
      train.push_back(file.get());
    }
    if (train.empty()) return;
    check_ranks_of(train, generated, path, problems);
  }

  /// Rollouts between others that are not there, a sentence each.
  std::vector<std::string> gaps() const {
    std::vector<std::string> notes;
    for (const foreign::Problem& found : find_rollout_gaps(generated(), trained_)) {
      notes.push_back(found.where + ": " + found.message);
    }
    return notes;
  }

  /// Whether files were met that cannot be put together.
  bool damaged() const { return damaged_; }

  std::vector<foreign::Problem> finish() const { return check_rollouts(generated(), trained_); }

 private:
  std::set<int64_t> generated() const {
    std::set<int64_t> out;
    for (const auto& [id, rollout] : rollouts_) out.insert(id);
    return out;
  }

  /// What keeps files that a problem names already from being put together is its consequence: the
  /// others are held against each other. `generated`: samples of their rollout,
  /// where that is there.
  void check_ranks_of(std::vector<const TorchFile*> files, std::optional<size_t> generated,
                      const std::string& path, Problems& problems) {
    const auto found = check_rank_files(files, generated);
    const bool lacks = std::ranges::count(found, "rank-missing", &foreign::Problem::code) > 0 &&
                       std::ranges::any_of(problems, is_of_columns);
    const bool refused = lacks || std::ranges::any_of(found, is_refusal);
    damaged_ = damaged_ || refused;
    if (!refused || problems.empty()) return add_problems(found, path, problems);
    std::erase_if(files, [&](const TorchFile* file) {
      return std::ranges::count(problems, file->path(), &VerifyProblem::path) > 0;
    });
    for (const foreign::Problem& problem : check_rank_files(files, generated)) {
      const bool of_these =
          problem.code == "replica-mismatch" || problem.code == "schedule-mismatch";
      if (of_these) add_problems({problem}, path, problems);
    }
  }

  /// Whether a problem is of the lengths of a file's columns, which say how many samples it has.
  static bool is_of_columns(const VerifyProblem& found) {
    return found.code == "length-mismatch" && found.dataset == "rollout_data";
  }

  static bool is_refusal(const foreign::Problem& found) {
    return found.code == to_string(ErrorCode::kCorrupt) || found.code == "slice-missing";
  }

  void add_rollout(int64_t id, const TorchFile& file, Problems& problems) {
    const std::string& path = file.path();
    if (std::filesystem::path(path).filename().string().starts_with("eval_")) return;
    const foreign::Value samples = *file.tree().find(file.root(), "samples");
    const auto [first, fresh] =
        rollouts_.emplace(id, Rollout{path, file.tree().sequence(samples).size()});
    if (fresh) return;
    problems.push_back({"two-runs", path, "",
                        first->second.path + " holds rollout " + std::to_string(id) +
                            ", too: give one run at a time"});
  }

  struct Rollout {
    std::string path;
    size_t samples = 0;
  };
  std::map<int64_t, Rollout> rollouts_;
  std::set<int64_t> trained_;
  bool damaged_ = false;
};

/// "a.pt, b.pt", of many the first few.
std::string named_files(const std::vector<std::string>& names) {
  constexpr size_t kMost = 8;
  const std::vector<std::string> first(
      names.begin(), names.begin() + static_cast<ptrdiff_t>(std::min(names.size(), kMost)));
  const size_t more = names.size() - first.size();
  return joined(first, ", ") + (more == 0 ? "" : " and " + std::to_string(more) + " more");
}

/// The sentence of `not_checked` on what was looked at in each file alone.
std::string values_not_checked(bool deep, bool folder) {
  if (!folder) return "what other files of its run say: the file was given alone";
  return std::string("what values mean, and training against its rollout: ") +
         (deep ? "the problems come first" : "--deep does");
}

/// Problems of what was made of the files, by the file.
void check_values(const std::string& path, VerifiedFiles& out) {
  with_dump(path, [&](const AnyDump& dump) {
    for (const foreign::Problem& problem : audit_values(dump.run(), &out.not_checked)) {
      const std::string file = dump.file_of(problem.where, problem.sample);
      if (file.empty()) {
        add_problems({problem}, path, out.problems);
      } else {
        out.problems.push_back({problem.code, file, problem.where, problem.message});
      }
    }
  });
}

/// Whether an export of this program put datasets of its own into the file.
bool has_own(const TorchFile& file) {
  return find_own(file.tree(), file.root(), "datasets") != nullptr ||
         find_own(file.tree(), file.root(), "steps") != nullptr;
}

/// Files of torch.save: their containers, whether what they say of samples fits together, the
/// ranks of a rollout, rollouts against steps, and with `deep` every value. A file that is given
/// alone stands for itself.
class TorchFiles {
 public:
  TorchFiles(std::string path, bool deep)
      : path_(std::move(path)), deep_(deep), folder_(std::filesystem::is_directory(path_)) {}

  VerifiedFiles verify() && {
    const auto sources = find_sources({path_}, folder_ ? ".pt" : "");
    for (const auto& family : sources) check_family(family);
    out_.others = others_.size();
    note_aside();
    if (out_.others == out_.files) std::ranges::move(others_, std::back_inserter(out_.problems));
    if (folder_) add_problems(find_rank_gaps(sources), path_, out_.problems);
    if (folder_ && unheld_.empty()) add_problems(run_.finish(), path_, out_.problems);
    note_unjudged();
    out_.corrupt = out_.corrupt || run_.damaged();
    const bool values = deep_ && folder_;
    if (!values && has_own_ && sound()) guarded([&] { const AnyDump dump(path_); });
    if (values && sound()) {
      guarded([&] { check_values(path_, out_); });
    } else {
      if (folder_ && !sound() && !out_.corrupt) judge_import();
      if (folder_ && unheld_.empty())
        std::ranges::move(run_.gaps(), std::back_inserter(out_.not_checked));
      out_.not_checked.push_back(values_not_checked(deep_, folder_));
    }
    return std::move(out_);
  }

 private:
  bool sound() const { return out_.problems.empty(); }

  void check_family(const std::vector<SourceFile>& family) {
    std::vector<std::unique_ptr<TorchFile>> read;
    Problems problems;
    std::vector<std::string> held, unheld;
    bool comparable = true;  // each is there and is what its name says
    for (const SourceFile& source : family) {
      ++out_.files;
      auto file = check_file(source.path, problems, out_.corrupt);
      const bool named = folder_ && names_dump(source.name);
      if (!named) set_others_aside(problems);
      const bool no_dump = named && file != nullptr && is_no_dump(*file);
      out_.corrupt = out_.corrupt || no_dump;
      const auto other =
          file == nullptr ? std::vector<foreign::Problem>() : check_name(source.name, *file);
      const bool is_held = file != nullptr && !no_dump && other.empty();
      (is_held ? held : unheld).push_back(source.name);
      comparable = comparable && is_held;
      if (file == nullptr) continue;
      add_problems(other, source.path, problems);
      has_own_ = has_own_ || has_own(*file);
      read.push_back(std::move(file));
    }
    if (folder_ && comparable) run_.add(read, path_, problems);
    if (!comparable && !held.empty()) {
      unjudged_.push_back("what " + named_files(held) + " says beside " + named_files(unheld));
    }
    if (!comparable) std::ranges::move(unheld, std::back_inserter(unheld_));
    std::ranges::move(problems, std::back_inserter(out_.problems));
  }

  static bool is_no_dump(const TorchFile& file) {
    return dump_kind(file.tree(), file.root()) == DumpKind::kNone &&
           !foreign::unknown_version(file.tree(), file.root());
  }

  /// Which files were not looked at, or hold no dump.
  void note_aside() {
    std::vector<std::string> names;
    for (const VerifyProblem& other : others_) {
      names.push_back(std::filesystem::path(other.path).lexically_relative(path_).string());
    }
    if (folder_ && out_.others < out_.files && !names.empty()) {
      out_.not_checked.push_back("what holds no dump, and an import keeps as it is: " +
                                 named_files(names));
    }
    if (!folder_) return;
    names.clear();
    for (const auto& [name, count] : other_files({path_}, ".pt")) {
      names.push_back(name + (count > 1 ? " (" + counted(count, "file") + ")" : ""));
    }
    if (!names.empty()) {
      out_.not_checked.push_back("what does not end in .pt, and no import reads: " +
                                 named_files(names));
    }
  }

  /// What was not looked at because files cannot be read, or are not what their names say.
  void note_unjudged() {
    if (!folder_ || unheld_.empty()) return;
    std::ranges::move(unjudged_, std::back_inserter(out_.not_checked));
    out_.not_checked.push_back("which rollouts have samples and training: " + named_files(unheld_) +
                               (unheld_.size() == 1 ? " is damaged, or not what its name says"
                                                    : " are damaged, or not what their names say"));
  }

  /// A file that is no dump is a problem only where all are none, or its name says that it is one.
  void set_others_aside(Problems& problems) {
    const auto is_other = [](const VerifyProblem& found) { return found.code == "not-a-dump"; };
    std::ranges::copy_if(problems, std::back_inserter(others_), is_other);
    std::erase_if(problems, is_other);
  }

  /// The verdict is that of an import of the files, whose gaps and refusal follow from the
  /// problems. What it lacks is named: its exit code is another.
  void judge_import() {
    try {
      const AnyDump dump(path_);
      Problems found;
      add_problems(audit_records(dump.reader()), path_, found);
      add_problems(recorded_findings(dump.reader()), path_, found);
      for (VerifyProblem& problem : found) {
        if (!names_missing(problem)) continue;
        out_.lacks_parts = true;
        const bool is_known = std::ranges::any_of(out_.problems, [&](const VerifyProblem& known) {
          return known.code == problem.code && known.message == problem.message;
        });
        if (!is_known) out_.problems.push_back(std::move(problem));
      }
    } catch (const Error& error) {
      if (!is_refused_file(error)) throw;
      out_.corrupt = error.code() != ErrorCode::kUsage && !is_outside_support(error);
    }
  }

  /// Does what reads the files put together: an error that no reader gets past becomes a problem.
  template <class Work>
  void guarded(Work work) {
    try {
      work();
    } catch (const Error& error) {
      if (!is_refused_file(error)) throw;
      const bool apart = folder_ && error.code() == ErrorCode::kUsage;  // files of two runs
      out_.corrupt = out_.corrupt || (!apart && !is_outside_support(error));
      out_.problems.push_back(unreadable_problem(error, path_));
    }
  }

  std::string path_;
  bool deep_, folder_;
  VerifiedFiles out_;
  Problems others_;  // of files that are no dumps
  RunFiles run_;
  bool has_own_ = false;
  std::vector<std::string> unheld_;    // files that nothing can be held against
  std::vector<std::string> unjudged_;  // what was not compared for them
};

/// Samples and steps as lines of JSON.
VerifiedFiles verify_lines(const std::string& path, bool deep) {
  VerifiedFiles out;
  out.files = 1;
  try {
    const auto found =
        with_dump(path, [](const AnyDump& dump) { return audit_records(dump.reader()); });
    add_problems(found, path, out.problems);
    if (deep && out.problems.empty()) {
      check_values(path, out);
    } else {
      out.not_checked.push_back(values_not_checked(deep, /*folder=*/true));
    }
  } catch (const Error& error) {
    if (!is_refused_file(error)) throw;
    out.corrupt = !is_outside_support(error);
    out.problems.push_back({std::string(to_string(error.code())), error.where(), "", error.what()});
  }
  return out;
}

}  // namespace

bool VerifiedFiles::unsupported() const {
  return std::ranges::any_of(problems, [](const VerifyProblem& found) {
    return found.code == "unknown-version" || found.code == to_string(ErrorCode::kUnsupported) ||
           found.code == to_string(ErrorCode::kLimit);
  });
}

bool VerifiedFiles::whole() const {
  return !corrupt && !lacks_parts && !unsupported() && files > 0 &&
         std::ranges::none_of(problems, names_missing);
}

VerifiedFiles verify_files(const std::string& path, bool deep) {
  if (path.ends_with(".jsonl")) return verify_lines(path, deep);
  check_no_unnamed_lines(path);
  return TorchFiles(path, deep).verify();
}

}  // namespace rlreplay::replay
