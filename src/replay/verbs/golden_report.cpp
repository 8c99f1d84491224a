#include "src/replay/verbs/golden_report.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <set>

#include "format/dump_place.h"
#include "src/base/atomic_file.h"
#include "src/base/environment_error.h"
#include "src/base/error.h"
#include "src/base/json_line.h"
#include "src/base/json_value.h"
#include "src/base/shell.h"
#include "src/base/words.h"

namespace fs = std::filesystem;

namespace rlreplay::replay {
namespace {

constexpr size_t kShownReport = 5;

std::string cause_line(const Checked& c) {
  if (const auto& found = c.cause.attribution) {
    return "  cause: " + std::string(gate::to_string(found->cause)) + ", " + found->reason + '\n';
  }
  if (!c.judgement.inputs.empty() && !c.judgement.differences.empty()) {
    return "  cause: the run is not given what it was recorded with\n";
  }
  if (c.judgement.outcome != gate::Outcome::kUnattributed) return "";
  return "  cause: not attributed; --build CMD, which builds the recorded commit here, tells\n";
}

std::string quarantine_line(const Checked& c) {
  const auto& quarantine = c.golden.quarantine;
  if (!quarantine) return "";
  const bool needless = gate::passes(c.judgement.outcome, true);
  const char* said = needless                                 ? "  nothing needs its quarantine "
                     : gate::holds(quarantine, gate::today()) ? "  in quarantine "
                                                              : "  its quarantine has ended: ";
  return said + to_string(*quarantine) + '\n';
}

}  // namespace

std::string begins_line(const std::string& begins) {
  const std::string label = "  begins at: ";
  return begins.empty() ? "" : label + wrapped(begins, kLineWidth, label.size()) + '\n';
}

std::string difference_json(const gate::JudgedDifference& d) {
  JsonLine line;
  const auto text = [&](const char* key, const std::optional<std::string>& value) {
    value ? line.text(key, *value) : line.null(key);
  };
  line.text("key", d.bits.key);
  text("recorded", d.bits.recorded);
  text("now", d.bits.now);
  // Readers of JSON hold integers in binary64.
  const bool exact = d.bits.ulps && std::abs(*d.bits.ulps) <= int64_t{1} << 53;
  exact ? line.integer("ulps", *d.bits.ulps) : line.null("ulps");
  line.boolean("within", d.within);
  d.tolerance ? line.text("tolerance", to_string(*d.tolerance)) : line.null("tolerance");
  return line.str();
}

std::string differences_text(const std::vector<gate::JudgedDifference>& differences, size_t limit) {
  std::string out;
  for (size_t i = 0; i < std::min(limit, differences.size()); ++i) {
    const gate::JudgedDifference& d = differences[i];
    std::string line = rlreplay::to_string(std::span(&d.bits, 1));
    line.pop_back();
    if (d.tolerance) {
      line += (d.within ? ", within " : ", beyond ") + to_string(*d.tolerance);
    }
    out += "  " + line + '\n';
  }
  if (differences.size() > limit) {
    out += "  and " + std::to_string(differences.size() - limit) + " more (--all lists them)\n";
  }
  return out;
}

std::string checked_json(const Checked& c, bool passes) {
  JsonLine line;
  line.text("schema", "rlreplay.golden/2")
      .text("file", c.path)
      .text("outcome", gate::to_string(c.judgement.outcome))
      .boolean("passes", passes)
      .text("reason", c.judgement.reason)
      .integer("values", static_cast<int64_t>(c.judgement.values))
      .json("differences", json_list(c.judgement.differences, difference_json))
      .json("environment", json_list(c.judgement.environment))
      .text("pending", c.pending);
  if (!c.judgement.inputs.empty()) line.json("inputs", json_list(c.judgement.inputs));
  if (c.golden.quarantine) line.text("quarantine", to_string(*c.golden.quarantine));
  if (const auto& found = c.cause.attribution) {
    line.text("cause", gate::to_string(found->cause)).text("cause_reason", found->reason);
  }
  if (!c.cause.begins.empty()) line.text("begins", c.cause.begins);
  return line.str();
}

std::string checked_text(const Checked& c, size_t limit) {
  const gate::GoldenVerdict& j = c.judgement;
  std::string out = std::string(gate::to_string(j.outcome)) + ": " + c.path + ", ";
  if (!j.differences.empty()) out += std::to_string(j.differences.size()) + " of ";
  out += std::to_string(j.values) + (j.differences.empty() ? " values\n" : " values differ\n");
  out += quarantine_line(c);
  if (!j.reason.empty()) out += "  " + j.reason + '\n';
  out += differences_text(j.differences, limit);
  for (const std::string& line : j.inputs) out += "  input: " + line + '\n';
  for (const std::string& line : j.environment) out += "  environment: " + line + '\n';
  out += cause_line(c) + begins_line(c.cause.begins);
  if (c.pending.empty()) return out;
  return out + "  if that is meant: rlreplay golden accept " + shell_word(c.path) +
         " --reason WHY\n";
}

gate::Said said_of(const Checked& c, bool passes) {
  using Level = gate::Said::Level;
  const Level level = !passes                           ? Level::kError
                      : c.judgement.differences.empty() ? Level::kFine
                                                        : Level::kWarning;
  return {.path = c.path,
          .outcome = std::string(gate::to_string(c.judgement.outcome)),
          .text = checked_text(c, kShownReport),
          .level = level,
          .judged = c.judgement.outcome != gate::Outcome::kNotJudged,
          .differences = c.judgement.differences.size()};
}

namespace {

/// A path without links, be something there or not.
fs::path place_of(const fs::path& path) { return fs::weakly_canonical(fs::absolute(path)); }

/// Whether a path is a folder's own, or below it.
bool lies_in(const fs::path& path, const fs::path& folder) {
  const fs::path below = place_of(path).lexically_relative(place_of(folder));
  return !below.empty() && *below.begin() != "..";
}

/// Errors: kUsage where a report would replace a golden file, or would be read as one of a folder.
void check_report_place(const std::string& report, const std::vector<std::string>& goldens) {
  std::error_code absent;
  for (const std::string& path : goldens) {
    if (gate::was_golden_file(report) || fs::equivalent(path, report, absent)) {
      throw Error(ErrorCode::kUsage,
                  "the report would replace this golden file: give it another name", report);
    }
    if (!fs::is_directory(path, absent) || !lies_in(report, path)) continue;
    // Who checks all below the working folder may write there, but no name of a golden file.
    if (lies_in(fs::current_path(), path) && !report.ends_with(".txt")) continue;
    throw Error(ErrorCode::kUsage,
                "the report would lie among the golden files of " + path + ": write it elsewhere",
                report);
  }
}

/// A file by its place in the checkout that it lies in, as services that show one beside its code
/// look for it; where it lies in none as it was called.
std::string place_in_checkout(const std::string& path) {
  const fs::path called = fs::path(path).lexically_normal();
  std::error_code absent;
  const fs::path folder = fs::weakly_canonical(fs::absolute(path).parent_path(), absent);
  if (absent) return called.string();
  const fs::path file = folder / called.filename();
  for (fs::path at = file.parent_path(); at.has_relative_path(); at = at.parent_path()) {
    if (fs::exists(at / ".git", absent)) return file.lexically_relative(at).string();
  }
  return called.string();
}

std::vector<gate::Said> by_checkout(std::vector<gate::Said> said) {
  for (gate::Said& s : said) s.path = place_in_checkout(s.path);
  return said;
}

}  // namespace

struct ReportFiles::File {
  std::unique_ptr<AtomicFile> file;
  std::string (*form)(std::span<const gate::Said>);
  bool beside_code;  // its service shows it in the checkout
};

ReportFiles::ReportFiles(const GoldenArguments& arguments) : github_(arguments.github) {
  std::set<fs::path> places;
  const auto add = [&](const std::string& path, auto form, bool beside_code) {
    if (path.empty()) return;
    format::check_outside_dumps(path);
    check_report_place(path, arguments.paths);
    if (!places.insert(place_of(path)).second) {
      throw Error(ErrorCode::kUsage, "two reports have this name: give each one of its own", path);
    }
    files_.push_back({std::make_unique<AtomicFile>(path), form, beside_code});
  };
  add(arguments.junit, gate::junit_of, false);
  add(arguments.sarif, gate::sarif_of, true);
  add(arguments.gitlab, gate::gitlab_of, true);
}

ReportFiles::~ReportFiles() = default;

void ReportFiles::write(const std::vector<gate::Said>& said) {
  const std::vector<gate::Said> placed = by_checkout(said);
  for (File& file : files_) {
    file.file->write(file.form(file.beside_code ? placed : said));
    file.file->commit();
  }
  if (!github_) return;
  std::cout << gate::github_of(placed);
  const char* summary = std::getenv("GITHUB_STEP_SUMMARY");
  if (summary == nullptr || *summary == '\0') return;
  std::ofstream out(summary, std::ios::app);
  out << gate::summary_of(placed) << std::flush;
  if (!out) throw environment_error("cannot write the summary of the job", summary);
}

}  // namespace rlreplay::replay
