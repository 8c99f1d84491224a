#include "format/verify.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <thread>

#include "format/foreign/dump_check.h"
#include "format/foreign/rollout_file.h"
#include "format/foreign/torch_file.h"
#include "format/foreign/train_shard.h"
#include "src/base/json_line.h"
#include "src/base/json_value.h"
#include "src/base/shell.h"
#include "src/base/words.h"
#include "src/replay/exchange/any_dump.h"
#include "src/replay/exchange/own_datasets.h"
#include "src/replay/exchange/rank_files_check.h"
#include "src/replay/exchange/source_files.h"
#include "src/replay/inspect/dump_audit.h"
#include "src/replay/inspect/event_check.h"
#include "src/replay/inspect/run_check.h"
#include "src/replay/inspect/state_check.h"
#include "src/replay/record/content_root.h"
#include "src/replay/record/import_findings.h"
#include "src/replay/verbs/verb.h"

namespace rlreplay::replay {
namespace {

constexpr int kFinding = 1;
constexpr int kCorrupt = 3;
constexpr size_t kMostShown = 12;

struct VerifyArguments {
  std::string path;
  bool deep = false;
  bool all = false;
  bool json = false;
};

struct Found {
  std::string code, path, dataset, message;
};

std::string problems_json(const std::vector<Found>& problems) {
  std::string out;
  for (const Found& problem : problems) {
    out += (out.empty() ? "[" : ",") + JsonLine()
                                           .text("code", problem.code)
                                           .text("path", problem.path)
                                           .text("dataset", problem.dataset)
                                           .text("message", problem.message)
                                           .str();
  }
  return out.empty() ? "[]" : out + "]";
}

/// Whether a part is missing, which is no contradiction of what is there.
bool names_missing(const Found& problem) {
  return problem.code.ends_with("-missing") || problem.code == "options";
}

void print_problems(const std::vector<Found>& problems, bool all) {
  const size_t shown = all ? problems.size() : std::min(problems.size(), kMostShown);
  for (const Found& problem : std::span(problems).first(shown)) {
    std::cout << "problem " << problem.code << ": " << problem.message << " (" << problem.path
              << (problem.dataset.empty() ? "" : ": ") << problem.dataset << ")\n";
  }
  if (shown < problems.size()) {
    std::cout << "and " << problems.size() - shown << " more problems: --all lists them\n";
  }
}

void print_not_checked(const std::vector<std::string>& sentences) {
  for (const std::string& what : sentences) {
    std::cout << wrapped("not checked: " + what, kLineWidth, 0) << '\n';
  }
}

void add_problems(const std::vector<foreign::Problem>& from, const std::string& path,
                  std::vector<Found>& to) {
  for (const foreign::Problem& problem : from) {
    const bool named = problem.where.starts_with(path);  // a file below it, by its whole path
    to.push_back(
        {problem.code, named ? problem.where : path, named ? "" : problem.where, problem.message});
  }
}

/// Events and states against what lies beside them.
void add_record(const RecordedRun& record, std::vector<Found>& problems,
                std::vector<std::string>& not_checked) {
  ThreadPool pool(static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
  for (auto* check : {&check_events, &check_states}) {
    const RecordFindings found = check(record, pool);
    for (const RecordProblem& problem : found.problems) {
      problems.push_back({problem.code, problem.unit, problem.dataset, problem.message});
    }
    not_checked.insert(not_checked.end(), found.not_checked.begin(), found.not_checked.end());
  }
}

/// What is known of a dump of ours.
struct Verified {
  format::VerifyReport report;
  std::vector<Found> problems;
  std::vector<std::string> not_checked;  // a sentence each
  std::optional<Hash> content;
  bool damaged = false;  // stored bytes are not those that were written
  bool complete = false;
  std::optional<int> unreadable = {};  // exit code of a value that ended the reading

  std::string_view verdict() const {
    if (damaged) return "DAMAGED";
    if (!report.sealed) return "UNFINISHED";
    if (report.complete && !complete) return "INCOMPLETE";
    if (!problems.empty()) return "CONTRADICTS ITSELF";
    return complete ? "complete" : "recovered";
  }
  int code() const {
    if (damaged) return exit_code(code_of(report.problems[0].rule));
    if (!report.sealed || (report.complete && !complete)) return kCorrupt;
    return unreadable.value_or(problems.empty() ? 0 : kFinding);
  }
};

/// Whether what was thrown says something of the input, and not of the machine or the program.
bool is_about_input(const Error& error) {
  return error.code() == ErrorCode::kCorrupt || error.code() == ErrorCode::kIncomplete ||
         error.code() == ErrorCode::kUsage;
}

/// What no reader gets past. A usage error here is of files that are no one run.
Found unreadable(const Error& error, const std::string& path) {
  const bool runs = error.code() == ErrorCode::kUsage;
  return {runs ? "two-runs" : std::string(to_string(error.code())),
          error.where().empty() ? path : error.where(), "", error.what()};
}

void add_problem(const format::Problem& problem, std::vector<Found>& to) {
  to.push_back(
      {std::string(to_string(problem.rule)), problem.path, problem.dataset, problem.message});
}

/// Every value, and what it means.
void check_values(const VerifyArguments& arguments, bool whole, Verified& out) {
  const RecordedRun record(arguments.path);
  add_problems(audit_values(record, &out.not_checked), arguments.path, out.problems);
  std::ranges::move(notes_of(record), std::back_inserter(out.not_checked));
  if (whole) {
    add_record(record, out.problems, out.not_checked);
  } else {
    out.not_checked.push_back("events and states: units are missing that they refer to");
  }
}

Verified verified(const VerifyArguments& arguments) {
  Verified out;
  out.report = format::verify(arguments.path, arguments.deep);
  for (const format::Problem& problem : out.report.problems) add_problem(problem, out.problems);
  out.damaged = !out.problems.empty();
  out.complete = out.report.complete;
  if (out.damaged) return out;
  const auto dump = format::DumpReader::open(arguments.path);
  add_problems(audit_records(dump), arguments.path, out.problems);
  const bool whole = out.problems.empty();
  out.complete = out.complete && std::ranges::none_of(out.problems, names_missing);
  try {
    if (arguments.deep) {
      check_values(arguments, whole, out);
    } else {
      add_problems(recorded_findings(dump), arguments.path, out.problems);
    }
    out.content = content_root(dump);
  } catch (const format::FormatError& error) {
    out.report.problems.push_back(error.problem());
    add_problem(error.problem(), out.problems);
    out.damaged = true;
  } catch (const Error& error) {
    if (!is_about_input(error)) throw;
    out.problems.push_back(unreadable(error, arguments.path));
    out.unreadable = exit_code(error.code());
  }
  return out;
}

void print_json(const Verified& dump) {
  const format::VerifyReport& report = dump.report;
  JsonLine out;
  out.text("schema", "rlreplay.verify/1")
      .text("verdict", dump.verdict())
      .boolean("complete", dump.complete)
      .boolean("sealed", report.sealed)
      .boolean("recovered", report.sealed && !report.complete)
      .text("version", report.version)
      .integer("whole_steps", static_cast<int64_t>(report.whole_steps))
      .integer("units", static_cast<int64_t>(report.units))
      .integer("whole_units", static_cast<int64_t>(report.whole_units));
  report.root == Hash{} ? out.null("root") : out.text("root", report.root.hex());
  dump.content ? out.text("content", dump.content->hex()) : out.null("content");
  std::cout << out.json("problems", problems_json(dump.problems))
                   .json("not_checked", json_list(dump.not_checked))
                   .str()
            << '\n';
}

std::string_view advice(std::string_view verdict) {
  if (verdict == "UNFINISHED") {
    return "its writer is at work or died: rlreplay capture --resume goes on, rlreplay seal "
           "--recovered closes it";
  }
  if (verdict == "recovered") return "it was closed after its writer had died";
  return "";
}

void print_text(const VerifyArguments& arguments, const Verified& dump) {
  const format::VerifyReport& report = dump.report;
  std::cout << dump.verdict() << ": " << arguments.path << ", " << report.whole_units << " of "
            << report.units << " units whole, " << report.whole_steps << " whole "
            << (report.whole_steps == 1 ? "step" : "steps") << '\n';
  if (const auto text = advice(dump.verdict()); !text.empty()) {
    std::cout << wrapped(std::string(text), kLineWidth, 0) << '\n';
  }
  print_problems(dump.problems, arguments.all);
  print_not_checked(dump.not_checked);
  if (!(report.root == Hash{})) std::cout << "root    " << report.root.hex() << '\n';
  if (dump.content) std::cout << "content " << dump.content->hex() << '\n';
  if (!arguments.deep && !dump.damaged) {
    std::cout
        << "content is as recorded; computed, and every value checked: rlreplay verify --deep "
        << arguments.path << '\n';
  }
}

int verify_dump(const VerifyArguments& arguments) {
  const Verified dump = verified(arguments);
  if (arguments.json) {
    print_json(dump);
  } else {
    print_text(arguments, dump);
  }
  return dump.code();
}

/// What no import gets past. Errors: kCorrupt.
void read_as_import(const foreign::TorchFile& file) {
  const foreign::DumpKind kind = dump_kind(file.tree(), file.root());
  if (kind == foreign::DumpKind::kTrainRank || kind == foreign::DumpKind::kTrainSamples) {
    const foreign::TrainShard shard(file);
  }
  if (kind != foreign::DumpKind::kRollout) return;
  try {
    foreign::read_rollout(file.tree(), file.root());
  } catch (const Error& error) {
    const std::string& where = error.where();
    throw Error(error.code(), error.what(), file.path() + (where.empty() ? "" : ": ") + where);
  }
}

/// What one file says against itself; nothing where it cannot be read.
std::unique_ptr<foreign::TorchFile> check_file(const std::string& path,
                                               std::vector<Found>& problems) {
  try {
    auto file = std::make_unique<foreign::TorchFile>(path);
    add_problems(file->problems(), path, problems);
    const auto found = check_dump(file->tree(), file->root());
    add_problems(found, path, problems);
    if (found.empty()) read_as_import(*file);
    return file;
  } catch (const Error& error) {
    Found& found = problems.emplace_back(unreadable(error, path));
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
  void add(const std::vector<std::unique_ptr<foreign::TorchFile>>& family, const std::string& path,
           std::vector<Found>& problems) {
    std::vector<const foreign::TorchFile*> train;
    for (const auto& file : family) {
      const foreign::DumpKind kind = dump_kind(file->tree(), file->root());
      const foreign::Value* id = file->tree().find(file->root(), "rollout_id");
      if (id == nullptr || id->kind != foreign::Kind::kInt) continue;
      if (kind == foreign::DumpKind::kRollout) add_rollout(id->integer, file->path(), problems);
      if (kind != foreign::DumpKind::kTrainRank && kind != foreign::DumpKind::kTrainSamples) {
        continue;
      }
      trained_.insert(id->integer);
      train.push_back(file.get());
    }
    if (!train.empty()) add_problems(check_rank_files(train), path, problems);
  }

  std::vector<foreign::Problem> finish() const {
    std::set<int64_t> generated;
    for (const auto& [rollout, path] : rollouts_) generated.insert(rollout);
    return check_run(generated, trained_);
  }

 private:
  void add_rollout(int64_t id, const std::string& path, std::vector<Found>& problems) {
    if (std::filesystem::path(path).filename().string().starts_with("eval_")) return;
    const auto [first, fresh] = rollouts_.emplace(id, path);
    if (fresh) return;
    problems.push_back(
        {"two-runs", path, "",
         first->second + " holds rollout " + std::to_string(id) + ", too: give one run at a time"});
  }

  std::map<int64_t, std::string> rollouts_;
  std::set<int64_t> trained_;
};

/// What was found in files that are no dump of ours.
struct VerifiedFiles {
  std::vector<Found> problems;
  std::vector<std::string> not_checked;  // a sentence each
  size_t files = 0;
  size_t others = 0;     // of these, no dumps, beside dumps
  bool corrupt = false;  // a file cannot be read

  bool whole() const {
    return !corrupt && !unsupported() && files > 0 && std::ranges::none_of(problems, names_missing);
  }
  /// A version that is not known says nothing of what the file holds.
  bool unsupported() const {
    return std::ranges::any_of(problems, [](const Found& found) {
      return found.code == "unknown-version" || found.code == to_string(ErrorCode::kUnsupported);
    });
  }
  int code() const {
    if (!corrupt && unsupported()) return exit_code(ErrorCode::kUnsupported);
    return whole() ? (problems.empty() ? 0 : kFinding) : kCorrupt;
  }
};

/// What was not looked at but in each file alone.
std::string values_not_checked(bool deep, bool folder) {
  if (!folder) return "what other files of its run say: the file was given alone";
  return std::string("what values mean, and training against its rollout: ") +
         (deep ? "the problems come first" : "--deep does");
}

/// Problems of what was made of the files, by the file.
void add_values(const VerifyArguments& arguments, VerifiedFiles& out) {
  with_dump(arguments.path, [&](const AnyDump& dump) {
    for (const foreign::Problem& problem : audit_values(dump.run(), &out.not_checked)) {
      const std::string file = dump.file_of(problem.where, problem.sample);
      if (file.empty()) {
        add_problems({problem}, arguments.path, out.problems);
      } else {
        out.problems.push_back({problem.code, file, problem.where, problem.message});
      }
    }
  });
}

/// Whether an export of this program put datasets of its own into the file.
bool has_own(const foreign::TorchFile& file) {
  return find_own(file.tree(), file.root(), "datasets") != nullptr ||
         find_own(file.tree(), file.root(), "steps") != nullptr;
}

/// Ranks whose file of one rollout is not there, and those of others are.
void add_missing_ranks(const std::vector<std::vector<SourceFile>>& sources,
                       std::vector<Found>& problems) {
  try {
    check_ranks(sources);
  } catch (const Error& error) {
    problems.push_back({"rank-missing", error.where(), "", error.what()});
  }
}

/// Files of torch.save: their containers, whether what they say of samples fits together, the
/// ranks of a rollout, and rollouts against steps. A file that is given alone stands for itself.
VerifiedFiles verified_files(const VerifyArguments& arguments) {
  VerifiedFiles out;
  RunFiles run;
  const bool folder = std::filesystem::is_directory(arguments.path);
  std::vector<Found> others;
  bool own = false;
  const auto sources = find_sources({arguments.path}, folder ? ".pt" : "");
  for (const auto& family : sources) {
    std::vector<std::unique_ptr<foreign::TorchFile>> read;
    for (const SourceFile& source : family) {
      ++out.files;
      auto file = check_file(source.path, out.problems);
      for (auto at = out.problems.begin(); at != out.problems.end();) {
        const bool other = at->code == "not-a-dump";
        if (other) others.push_back(*at);
        at = other ? out.problems.erase(at) : at + 1;
      }
      out.corrupt = out.corrupt || file == nullptr;
      if (file == nullptr) continue;
      add_problems(check_name(source.name, *file), source.path, out.problems);
      own = own || has_own(*file);
      read.push_back(std::move(file));
    }
    if (folder && out.problems.empty()) run.add(read, arguments.path, out.problems);
  }
  out.others = others.size();
  if (out.others == out.files) std::ranges::move(others, std::back_inserter(out.problems));
  if (folder) add_missing_ranks(sources, out.problems);
  if (folder && out.problems.empty()) add_problems(run.finish(), arguments.path, out.problems);
  if (arguments.deep && !folder && own && out.problems.empty()) {
    try {
      const AnyDump dump(arguments.path);
    } catch (const Error& error) {
      if (!is_about_input(error)) throw;
      out.corrupt = true;
      out.problems.push_back(unreadable(error, arguments.path));
    }
  }
  if (!arguments.deep || !folder || !out.problems.empty()) {
    out.not_checked.push_back(values_not_checked(arguments.deep, folder));
    return out;
  }
  try {
    add_values(arguments, out);
  } catch (const Error& error) {
    if (!is_about_input(error)) throw;
    out.corrupt = error.code() != ErrorCode::kUsage;
    out.problems.push_back(unreadable(error, arguments.path));
  }
  return out;
}

/// Samples and steps as lines of JSON.
VerifiedFiles verified_lines(const VerifyArguments& arguments) {
  VerifiedFiles out;
  out.files = 1;
  try {
    const auto found =
        with_dump(arguments.path, [](const AnyDump& dump) { return audit_records(dump.reader()); });
    add_problems(found, arguments.path, out.problems);
    if (arguments.deep && out.problems.empty()) {
      add_values(arguments, out);
    } else {
      out.not_checked.push_back(values_not_checked(arguments.deep, /*folder=*/true));
    }
  } catch (const Error& error) {
    out.corrupt = error.code() != ErrorCode::kUnsupported;
    out.problems.push_back({std::string(to_string(error.code())), error.where(), "", error.what()});
  }
  return out;
}

int verify_files(const VerifyArguments& arguments) {
  const bool lines = arguments.path.ends_with(".jsonl");
  const VerifiedFiles found = lines ? verified_lines(arguments) : verified_files(arguments);
  const std::vector<Found>& problems = found.problems;
  if (arguments.json) {
    std::cout << JsonLine()
                     .text("schema", "rlreplay.verify.files/1")
                     .boolean("complete", found.whole())
                     .integer("files", static_cast<int64_t>(found.files))
                     .integer("other_files", static_cast<int64_t>(found.others))
                     .null("whole_steps")
                     .null("root")
                     .json("problems", problems_json(problems))
                     .json("not_checked", json_list(found.not_checked))
                     .str()
              << '\n';
  } else {
    print_problems(problems, arguments.all);
    print_not_checked(found.not_checked);
    std::cout << counted(found.files, "file") << ", " << counted(problems.size(), "problem")
              << '\n';
    if (found.others > 0 && found.others < found.files) {
      std::cout << counted(found.others, "file")
                << " of them hold no dump: an import keeps them as they are\n";
    }
    const bool more = lines || std::filesystem::is_directory(arguments.path);
    if (!arguments.deep && problems.empty() && more) {
      std::cout << "every value as well: rlreplay verify --deep " << shell_word(arguments.path)
                << '\n';
    }
  }
  return found.code();
}

}  // namespace

void add_verify(CLI::App& program, VerbRun& chosen) {
  auto arguments = std::make_shared<VerifyArguments>();
  CLI::App* verb = program.add_subcommand("verify", "Whether a dump is whole and means something");
  verb->add_option("--from,dump", arguments->path,
                   "a dump, files of slime, Miles or Relax, or JSONL")
      ->required();
  verb->add_flag("--deep", arguments->deep, "decode every value and check what it means");
  verb->add_flag("--json", arguments->json, "print one JSON object");
  verb->add_flag("--all", arguments->all, "print every problem");
  verb->footer(
      "Every stored byte is checked against its hash, and that all ranks of every step and all\n"
      "rollouts and steps that the run's options announce are there. What the records say of\n"
      "their units, so the content that is printed, is the writer's word until --deep computes\n"
      "it. With --deep also every value:\n"
      "  what each unit and each group says, against its record\n"
      "  samples that rollout and training join, by id, length and token; ascending ids\n"
      "  token ids and lengths, against the model's vocabulary and positions\n"
      "  masks, numbers that are not finite, log-probabilities above 0, prompts' values\n"
      "  copies on several ranks that must agree\n"
      "  events: rows against samples, digests against rows, values, columns and\n"
      "    scalars, statistics against values\n"
      "  states, which must be what the step before left, with its count of steps\n"
      "  whether every verb can read it; what could not be checked is named\n"
      "Of files of others, those of all ranks, and of each rollout its samples and its steps.\n"
      "Exit code 3 where something is damaged or missing, 4 where a dump's version is too new,\n"
      "1 where values or files contradict themselves. A dump whose writer died:\n"
      "rlreplay seal --recovered.\n\n"
      "Examples:\n  rlreplay verify --deep dump/\n  rlreplay verify dump_details/");
  verb->callback([=, &chosen] {
    chosen = [=] {
      const bool foreign =
          std::filesystem::exists(arguments->path) &&
          (!std::filesystem::is_directory(arguments->path) ||
           (!is_native_dump(arguments->path) && !find_sources({arguments->path}, ".pt").empty()));
      return foreign ? verify_files(*arguments) : verify_dump(*arguments);
    };
  });
}

}  // namespace rlreplay::replay
