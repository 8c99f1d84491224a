#include "src/replay/measure/evidence.h"

#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "format/dump_files.h"
#include "src/base/error.h"
#include "src/replay/exchange/import.h"
#include "src/replay/measure/dump_numbers.h"

namespace fs = std::filesystem;

namespace rlreplay::measure {
namespace {

constexpr int kCannotSay = 125, kFirstCrash = 126, kSignal = 128;
constexpr int kUncaught = 1;                    // of Python, after an exception
constexpr std::string_view kLineEnds = "\r\n";  // a progress bar ends its own by the first
constexpr const char* kContract =
    "leave dump/, files of a framework, metrics.json, metrics.jsonl or an exit code";

Measurement unreadable(std::string problem) {
  return {.kind = RunKind::kUnreadable, .problem = std::move(problem)};
}

Measurement unreadable(const std::string& what, const Error& error) {
  Measurement out = unreadable(what + ": " + error.where() + ": " + error.what());
  out.unread = error;
  return out;
}

bool exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

/// Whether a torch file lies somewhere in a run's output.
bool has_torch_file(const std::string& folder) {
  std::error_code ignored;
  for (fs::recursive_directory_iterator entry(folder, ignored), end; entry != end;
       entry.increment(ignored)) {
    if (entry->path().extension() == ".pt") return true;
  }
  return false;
}

Measurement read_metrics_file(const std::string& path) {
  const bool lines = path.ends_with(".jsonl");
  const std::string name = lines ? "metrics.jsonl" : "metrics.json";
  Measurement out{.kind = RunKind::kRan, .evidence = Evidence::kMetrics};
  try {
    out.metrics = read_metrics(path);
  } catch (const Error& error) {
    return unreadable(name + " cannot be read", error);
  }
  if (out.metrics.empty()) return unreadable(name + " holds no number");
  return out;
}

Measurement read_dump(const std::string& path, bool log_probs) {
  Measurement out{.kind = RunKind::kRan};
  try {
    read_dump_numbers(path, log_probs, out);
  } catch (const Error& error) {
    return unreadable("the dump cannot be compared", error);
  }
  return out;
}

/// Files of a framework, as a dump beside the folder that holds them.
Measurement import_files(const std::string& folder, bool log_probs) {
  const std::string dump = folder + "-imported";
  try {
    replay::ImportOptions options;
    options.paths = {folder};
    options.output = dump;
    options.force = true;
    static_cast<void>(replay::import_dump(options));
  } catch (const Error& error) {
    return unreadable("the files of torch that the run left are no dump of slime, Miles or Relax",
                      error);
  }
  return read_dump(dump, log_probs);
}

/// Where the last `  File "..."` of a traceback begins: a line, or the rest of one that a program
/// had not ended. Deeper in lies what the exception quotes.
size_t find_last_file(std::string_view words) {
  constexpr std::string_view kFile = "  File \"";
  size_t place = words.rfind(kFile);
  while (place != words.npos) {
    const size_t line = words.find_last_of(kLineEnds, place) + 1;
    const std::string_view before = words.substr(line, place - line);
    if (before.empty() || before.find_first_not_of(' ') != before.npos) return place;
    place = words.rfind(kFile, place - 1);
  }
  return place;
}

/// Whether a program's last words are those of a Python exception that nobody caught. The first
/// line after the last place and its source says which; more lines of its message may follow. A
/// failed assertion is a verdict.
bool is_traceback(std::string_view last_words) {
  size_t place = find_last_file(last_words);
  while (place != last_words.npos) {
    place = last_words.find_first_of(kLineEnds, place);
    const size_t line = last_words.find_first_not_of(kLineEnds, place);
    if (place == last_words.npos || line == last_words.npos) return false;
    if (last_words[line] != ' ') return !last_words.substr(line).starts_with("AssertionError");
    place = line;
  }
  return false;
}

/// What the folder holds; kExitCode when it holds nothing of what is looked for.
Measurement read_folder(const std::string& folder, bool log_probs) {
  std::vector<std::string> left;
  for (const char* name : {"dump", "metrics.json", "metrics.jsonl"}) {
    if (exists(folder + "/" + name)) left.emplace_back(name);
  }
  if (left.size() > 1) {
    return unreadable("the run left both " + left[0] + (left[0] == "dump" ? "/" : "") + " and " +
                      left[1] + ", and one must decide: " + kContract);
  }
  if (!left.empty()) {
    const std::string path = folder + "/" + left[0];
    if (left[0] != "dump") return read_metrics_file(path);
    std::error_code ignored;
    if (fs::exists(path, ignored) && !fs::is_directory(path, ignored)) {
      return unreadable("what the run left as dump is no folder: " + path);
    }
    return read_dump(path, log_probs);
  }
  if (has_torch_file(folder)) return import_files(folder, log_probs);
  return {.kind = RunKind::kRan, .evidence = Evidence::kExitCode};
}

int exit_code_of(const ProcessResult& run) {
  return run.end == ProcessResult::End::kSignal ? kSignal + run.code : run.code;
}

}  // namespace

Measurement read_evidence(const ProcessResult& run, const std::string& output, bool log_probs) {
  const auto without = [&](RunKind kind, const std::string& problem) {
    return Measurement{.kind = kind, .problem = problem, .exit_code = exit_code_of(run)};
  };
  const bool exited = run.end == ProcessResult::End::kExit;
  if (run.end == ProcessResult::End::kTimeout || run.end == ProcessResult::End::kTooMuchOutput) {
    return without(RunKind::kHung, "the run " + run.describe());
  }
  if (exited && run.code == kCannotSay) {
    return without(RunKind::kCannotSay, "the run says that it cannot judge (exit code 125)");
  }
  if (!exited || run.code >= kFirstCrash) {
    return without(RunKind::kCrashed, "the run " + run.describe());
  }
  Measurement out = read_folder(output, log_probs);
  out.exit_code = run.code;
  if (out.evidence == Evidence::kExitCode && run.code == kUncaught &&
      is_traceback(run.error_tail)) {
    return without(RunKind::kCrashed,
                   "the run crashed (" + run.describe() + "): an exception is no verdict");
  }
  return out;
}

Measurement read_recorded(const std::string& path, bool log_probs) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    throw Error(ErrorCode::kIncomplete, "there is no such file or folder", path);
  }
  if (!fs::is_directory(path, ignored)) return read_metrics_file(path);
  if (format::looks_like_dump(path)) {
    return read_dump(path, log_probs);
  }
  Measurement out = read_folder(path, log_probs);
  if (out.evidence == Evidence::kExitCode) {
    throw Error(ErrorCode::kIncomplete,
                "there is neither a dump nor a metrics.json or metrics.jsonl", path);
  }
  return out;
}

}  // namespace rlreplay::measure
