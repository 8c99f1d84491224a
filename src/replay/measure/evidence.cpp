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

/// Text without colours.
std::string without_colours(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i, 2) == "\x1b[") {
      i = std::min(text.find_first_not_of("0123456789;", i + 2), text.size());
      continue;
    }
    out += text[i];
  }
  return out;
}

/// A line without the `[rank0]: ` by which a launcher says whose it is.
std::string_view without_rank(std::string_view line) {
  const size_t end = line.starts_with('[') ? line.find("]: ") : line.npos;
  if (end == line.npos || line.substr(0, end).find(' ') != line.npos) return line;
  return line.substr(end + 3);
}

/// Whether a line has a place of a traceback, or ends in one that was written behind a line that a
/// program had not ended. Deeper in lies what the exception quotes.
bool has_place(std::string_view line) {
  const size_t place = line.find("  File \"");
  if (place == line.npos) return false;
  return place == 0 || line.substr(0, place).find_first_not_of(' ') != line.npos;
}

/// Whether a program's last words are those of a Python exception that nobody caught. The first
/// line after the last place and its source says which; more lines of its message may follow. A
/// failed assertion is a verdict; what a group of exceptions holds, whose lines all begin with
/// blanks, is none.
bool is_traceback(std::string_view last_words) {
  const std::string words = without_colours(last_words);
  bool inside = false, found = false, group = false;
  size_t begin = 0;
  while (begin < words.size()) {
    const size_t end = std::min(words.find_first_of(kLineEnds, begin), words.size());
    const std::string_view line = without_rank(std::string_view(words).substr(begin, end - begin));
    begin = end + 1;
    if (line.empty()) continue;
    if (line.ends_with("+ Exception Group Traceback (most recent call last):")) group = true;
    if (has_place(line)) {
      inside = true;
      found = group;
    } else if (inside && line[0] != ' ') {
      inside = false;
      found = !line.starts_with("AssertionError");
    }
  }
  return found;
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
