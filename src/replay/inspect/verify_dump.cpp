#include <algorithm>
#include <iterator>

#include "src/base/printable.h"
#include "src/base/thread_pool.h"
#include "src/replay/inspect/dump_audit.h"
#include "src/replay/inspect/event_check.h"
#include "src/replay/inspect/rank_notes.h"
#include "src/replay/inspect/state_check.h"
#include "src/replay/inspect/unit_audit.h"
#include "src/replay/inspect/unread_rollouts.h"
#include "src/replay/inspect/verified.h"
#include "src/replay/record/content_root.h"
#include "src/replay/record/import_findings.h"
#include "src/replay/record/incomplete_record.h"

namespace rlreplay::replay {
namespace {

void add_problem(const format::Problem& problem, std::vector<VerifyProblem>& to) {
  to.push_back({std::string(to_string(problem.rule)), problem.path, problem.dataset,
                problem.message, problem.offset});
}

void add_findings(const RecordFindings& found, VerifiedDump& out) {
  for (const RecordProblem& problem : found.problems) {
    out.problems.push_back(
        {problem.code, problem.unit, problem.dataset, shortened(problem.message)});
  }
  std::ranges::copy(found.not_checked, std::back_inserter(out.not_checked));
}

/// Events and states against what lies beside them.
void check_record(const RecordedRun& record, const UnreadRollouts& unread, VerifiedDump& out) {
  ThreadPool pool(processors());
  add_findings(check_events(record, unread, pool), out);
  if (unread.lacks_states()) {
    out.not_checked.push_back("states: one of them is damaged, and others are told by it");
  } else {
    add_findings(check_states(record, pool), out);
  }
}

/// What ended the reading of a rollout.
/// Whether a broken rule says that something stored is not sound, and not that no more is read.
bool is_damage(const format::Problem& problem) {
  const ErrorCode code = format::code_of(problem.rule);
  return code != ErrorCode::kLimit && code != ErrorCode::kUnsupported;
}

void add_fault(const UnreadRollouts::Fault& fault, const std::string& path, VerifiedDump& out) {
  if (fault.problem && is_damage(*fault.problem)) {
    out.report.problems.push_back(*fault.problem);
    add_problem(*fault.problem, out.problems);
    out.damaged = true;
    return;
  }
  out.problems.push_back(unreadable_problem(fault.error, path));
  if (!out.unreadable) out.unreadable = fault.error.code();
}

/// What a damaged unit of an extension leaves open. An import's may say which ids are meant.
std::string unread_extension(const RecordedRun& record) {
  return std::string("what units of extensions say") +
         (record.is_imported() ? ", training against its rollout, events and states" : "") +
         ": one of them is damaged";
}

/// What values of rollouts and steps mean, their units put together: faults are left in `unread`.
void audit_units(const RecordedRun& record, UnreadRollouts& unread, VerifiedDump& out) {
  add_problems(audit_values(record, &out.not_checked, &unread), record.path(), out.problems);
  std::ranges::move(rank_notes(record, unread), std::back_inserter(out.not_checked));
}

/// Every value, and what it means; of a dump with damaged units that of the others. `whole`: no
/// unit is missing. Returns whether all of it could be read.
bool check_values(const RecordedRun& record, bool whole, VerifiedDump& out) {
  UnreadRollouts unread(record.dump(), out.report.problems);
  const bool unsaid = unread.lacks_extensions();
  if (unsaid) out.not_checked.push_back(unread_extension(record));
  audit_units(record, unread, out);
  if (unsaid && record.is_imported()) {
    // Said with the extension.
  } else if (whole) {
    check_record(record, unread, out);
  } else {
    out.not_checked.push_back("events and states: units are missing that they refer to");
  }
  for (const UnreadRollouts::Fault& fault : unread.faults()) add_fault(fault, record.path(), out);
  if (!unread.empty()) out.not_checked.push_back(unread.text());
  return unread.empty() && !unsaid;
}

/// Whether a place begins with the whole path of a file: of `path`, or of one below it.
bool is_at_or_below(std::string_view where, std::string_view path) {
  if (path.empty() || !where.starts_with(path)) return false;
  const std::string_view rest = where.substr(path.size());
  return rest.empty() || path.ends_with('/') || rest[0] == '/' || rest[0] == ':';
}

}  // namespace

bool names_missing(const VerifyProblem& problem) {
  return problem.code.ends_with("-missing") || problem.code == "options";
}

bool is_about_input(const Error& error) {
  return error.code() == ErrorCode::kCorrupt || error.code() == ErrorCode::kIncomplete ||
         error.code() == ErrorCode::kUsage;
}

bool is_outside_support(const Error& error) {
  return error.code() == ErrorCode::kUnsupported || error.code() == ErrorCode::kLimit;
}

bool is_refused_file(const Error& error) {
  return is_about_input(error) || is_outside_support(error) || error.code() == ErrorCode::kUnsafe;
}

VerifyProblem unreadable_problem(const Error& error, const std::string& path) {
  const bool runs = error.code() == ErrorCode::kUsage;
  return {runs ? "two-runs" : std::string(to_string(error.code())),
          error.where().empty() ? path : error.where(), "", shortened(error.what())};
}

void add_problems(const std::vector<foreign::Problem>& from, const std::string& path,
                  std::vector<VerifyProblem>& to) {
  for (const foreign::Problem& problem : from) {
    const bool named = is_at_or_below(problem.where, path);
    to.push_back(
        {problem.code, named ? problem.where : path, named ? "" : problem.where, problem.message});
  }
}

bool VerifiedDump::lacks_parts() const {
  return report.sealed && std::ranges::any_of(problems, names_missing);
}

std::string_view VerifiedDump::verdict() const {
  if (damaged) return "DAMAGED";
  if (!report.sealed) return "UNFINISHED";
  if (lacks_parts()) return "INCOMPLETE";
  if (!problems.empty()) return "CONTRADICTS ITSELF";
  return complete ? "complete" : "recovered";
}

namespace {

/// Whether it is of a unit that was written and not acknowledged yet: whoever goes on with the dump
/// writes it anew. Other files are none of a writer's.
bool is_unacknowledged(const format::Problem& problem, const format::VerifyReport& report) {
  return problem.rule == format::Rule::kUnlisted && !report.sealed &&
         format::sound_unit_path(problem.path);
}

/// What can be judged of a dump with damaged units beside them.
void judge_rest(const std::string& path, VerifiedDump& out) {
  try {
    const RecordedRun record(path);
    static_cast<void>(check_values(record, audit_records(record.dump()).empty(), out));
  } catch (const Error& error) {
    if (!is_about_input(error) && !is_outside_support(error)) throw;
    out.not_checked.push_back("what values mean: the dump cannot be read past what is damaged");
  }
}

void note_missing(VerifiedDump& out) {
  out.complete = out.complete && std::ranges::none_of(out.problems, names_missing);
}

}  // namespace

std::optional<format::Problem> find_unit_damage(const std::string& path, int threads) {
  format::ReaderOptions reading;
  reading.threads = threads;
  const format::VerifyReport report = format::verify(path, true, reading);
  if (report.problems.empty()) return std::nullopt;
  return report.problems.front();
}

std::optional<format::Problem> find_damage(const std::string& path, int threads) {
  if (auto problem = find_unit_damage(path, threads)) return problem;
  UnreadRollouts unread;
  try {
    VerifiedDump said;  // all that is no damage
    audit_units(RecordedRun(path), unread, said);
  } catch (const format::FormatError& error) {
    if (is_outside_support(error)) return std::nullopt;  // no word on what is stored
    return error.problem();
  } catch (const Error& error) {
    if (!is_about_input(error) && !is_outside_support(error)) throw;
  }
  for (const UnreadRollouts::Fault& fault : unread.faults()) {
    if (fault.problem && is_damage(*fault.problem)) return fault.problem;
  }
  return std::nullopt;
}

VerifiedDump verify_dump(const std::string& path, VerifyDepth depth) {
  VerifiedDump out;
  const bool quick = depth == VerifyDepth::kQuick, deep = depth == VerifyDepth::kDeep;
  out.report = quick ? format::verify_quick(path) : format::verify(path, deep);
  for (const format::Problem& problem : out.report.problems) {
    add_problem(problem, out.problems);
    out.damaged |= !is_unacknowledged(problem, out.report);
  }
  out.complete = out.report.complete;
  if (out.damaged) {
    if (deep) judge_rest(path, out);
    return out;
  }
  const auto dump = format::DumpReader::open(path);
  if (dump.sealed() != out.report.sealed) return verify_dump(path, depth);  // its writer just ended
  out.unended = unended_writers(dump);
  out.unended_text = unended_text(dump);
  const size_t unacknowledged = out.problems.size();
  add_problems(audit_records(dump), path, out.problems);
  const bool whole = out.problems.size() == unacknowledged;
  if (whole && !deep) out.not_checked = rollout_gap_notes(dump);
  if (quick) {
    out.not_checked.push_back("bytes of units: that they are there and have their sizes is all");
    note_missing(out);
    return out;
  }
  try {
    if (!deep) add_problems(recorded_findings(dump), path, out.problems);
    if (!deep || check_values(RecordedRun(path), whole, out)) out.content = content_root(dump);
  } catch (const format::FormatError& error) {
    out.report.problems.push_back(error.problem());
    add_problem(error.problem(), out.problems);
    out.damaged = true;
  } catch (const Error& error) {
    if (!is_about_input(error)) throw;
    out.problems.push_back(unreadable_problem(error, path));
    out.unreadable = error.code();
  }
  note_missing(out);
  return out;
}

}  // namespace rlreplay::replay
