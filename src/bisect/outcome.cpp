#include "src/bisect/outcome.h"

#include <filesystem>

#include "src/base/error.h"

namespace fs = std::filesystem;

namespace rlreplay::bisect {
namespace {

constexpr int kCannotJudge = 125;
constexpr const char* kContract = "leave dump/, metrics.json or an exit code";
constexpr const char* kOneIsBad =
    " (exit code 1 alone means bad: where this is the difference that is looked for, let the "
    "command end with `|| exit 1`)";

Outcome nothing(std::string problem) { return {Outcome::Kind::kNothing, std::move(problem)}; }

bool exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

/// A file of another program somewhere in a run's output, or an empty text.
std::string foreign_file(const std::string& folder) {
  std::error_code ignored;
  for (fs::recursive_directory_iterator entry(folder, ignored), end; entry != end;
       entry.increment(ignored)) {
    if (entry->path().extension() == ".pt") return entry->path();
  }
  return {};
}

Outcome read_metrics_outcome(const std::string& path) {
  Outcome outcome{Outcome::Kind::kMetrics};
  try {
    outcome.metrics = read_metrics(path);
  } catch (const Error& error) {
    return nothing("metrics.json cannot be read: " + error.where() + ": " + error.what());
  }
  if (outcome.metrics.empty()) return nothing("metrics.json holds no number");
  return outcome;
}

/// Whether a program's last words are those of a Python exception that nobody caught. A failed
/// assertion is a verdict.
bool is_crash(const std::string& last_words) {
  const size_t place = last_words.rfind("\n  File \"");
  const size_t end = last_words.find_last_not_of(" \n");
  if (place == last_words.npos || end == last_words.npos || end < place) return false;
  const std::string last_line = last_words.substr(last_words.rfind('\n', end) + 1);
  return !last_line.starts_with(' ') && !last_line.starts_with("AssertionError");
}

/// What the folder holds; kExitCode when it holds nothing of what is looked for.
Outcome read_folder(const std::string& folder) {
  const std::string dump = folder + "/dump", metrics = folder + "/metrics.json";
  if (exists(dump) && exists(metrics)) {
    return nothing("the run left both dump/ and metrics.json, and one must decide: " +
                   std::string(kContract));
  }
  if (exists(dump)) return {Outcome::Kind::kDump, {}, 0, {}, dump};
  if (exists(metrics)) return read_metrics_outcome(metrics);
  if (const std::string file = foreign_file(folder); !file.empty()) {
    return nothing("the run left a torch file, " + file +
                   ", and dumps of other programs are no verdict yet: " + kContract);
  }
  return {Outcome::Kind::kExitCode};
}

}  // namespace

std::string to_string(Outcome::Kind kind) {
  switch (kind) {
    case Outcome::Kind::kNothing:
      return "nothing";
    case Outcome::Kind::kExitCode:
      return "an exit code only";
    case Outcome::Kind::kMetrics:
      return "metrics.json";
    case Outcome::Kind::kDump:
      return "a dump";
  }
  return "nothing";
}

Outcome read_outcome(const ProcessResult& run, const std::string& output) {
  const bool exited = run.end == ProcessResult::End::kExit;
  if (exited && run.code == kCannotJudge) {
    return nothing("the run says that it cannot judge (exit code 125)");
  }
  if (!exited || run.code > 1) {
    Outcome outcome = nothing("the run " + run.describe() + (exited ? kOneIsBad : ""));
    outcome.exit_code = run.code;
    return outcome;
  }
  Outcome outcome = read_folder(output);
  if (outcome.kind == Outcome::Kind::kExitCode && run.code == 1 && is_crash(run.error_tail)) {
    return nothing("the run crashed (" + run.describe() + "): an exception is no verdict" +
                   kOneIsBad);
  }
  outcome.exit_code = run.code;
  return outcome;
}

Outcome read_recorded(const std::string& path) {
  if (!exists(path)) throw Error(ErrorCode::kIncomplete, "there is no such file or folder", path);
  if (!fs::is_directory(path)) return read_metrics_outcome(path);
  if (exists(path + "/journal.jsonl") || exists(path + "/manifest.json")) {
    return {Outcome::Kind::kDump, {}, 0, {}, path};
  }
  Outcome outcome = read_folder(path);
  if (outcome.kind == Outcome::Kind::kExitCode) {
    throw Error(ErrorCode::kIncomplete, "there is neither a dump nor a metrics.json", path);
  }
  return outcome;
}

}  // namespace rlreplay::bisect
