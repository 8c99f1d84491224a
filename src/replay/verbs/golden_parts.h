#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/replay/gate/attribution.h"
#include "src/replay/gate/outcome.h"
#include "src/replay/gate/place.h"
#include "src/replay/verbs/run_flags.h"

namespace rlreplay::replay {

/// What the parts of `rlreplay golden` are told.
struct GoldenArguments {
  RunFlags flags;                  // of a run of ours
  std::vector<std::string> paths;  // golden files, or folders of them
  std::string run;                 // somebody else's run: a command of the shell
  std::string build;               // how its commit is built
  std::string dump;                // of the recorded run
  std::string claim;               // BASE..HEAD, of which no golden file is needed
  std::string on_fail;             // what follows a difference
  bool run_recorded = false;       // the user's word for the commands that stand in golden files
  double time_limit = 0;           // seconds a run may take; 0: as long as it does
  std::string class_name;
  std::string reason;
  std::vector<std::string> tolerances;  // PATTERN=BOUND UNIT: WHY
  std::string until, owner;             // of a quarantine
  bool lift = false;                    // end it
  int repeat = 2;                       // runs that noise is measured by
  bool self_test = false;
  std::string inject;                // EVENT:INDEX:ULPS, of a self-test
  std::string junit, sarif, gitlab;  // reports that are written
  bool github = false;               // annotations
  bool force = false;
  bool allow_changed = false;
  bool strict = false;
  bool all = false;  // list every difference
  bool json = false;

  std::string file() const { return paths.front(); }
};

/// Each does what `rlreplay golden` and its name ask for, prints it and returns the exit code.
[[nodiscard]] int golden_record(const GoldenArguments& arguments);
[[nodiscard]] int golden_check(const GoldenArguments& arguments);
[[nodiscard]] int golden_self_test(const GoldenArguments& arguments);
[[nodiscard]] int golden_claim(const GoldenArguments& arguments);
[[nodiscard]] int golden_list(const GoldenArguments& arguments);
[[nodiscard]] int golden_explain(const GoldenArguments& arguments);
[[nodiscard]] int golden_accept(const GoldenArguments& arguments);
[[nodiscard]] int golden_reject(const GoldenArguments& arguments);
[[nodiscard]] int golden_review(const GoldenArguments& arguments);
[[nodiscard]] int golden_fsck(const GoldenArguments& arguments);
[[nodiscard]] int golden_diff(const GoldenArguments& arguments);
[[nodiscard]] int golden_tighten(const GoldenArguments& arguments);
[[nodiscard]] int golden_quarantine(const GoldenArguments& arguments);

/// Names the files that cannot be read among others, and hides none of these for them.
class UnreadFiles {
 public:
  /// Begins with what was not found. Errors: the first of it where nothing was.
  explicit UnreadFiles(const gate::FoundFiles& found);
  /// Does what reads a file; an error is printed with its path. Returns whether there was none.
  /// Errors: kInterrupted; any other where there is one file.
  [[nodiscard]] bool read(const std::string& path, const std::function<void()>& reads);
  /// That of the first of them; 0: there is none.
  int code() const { return code_; }

 private:
  void add(const std::string& path, const Error& error);

  bool hides_none_ = false;
  int code_ = 0;
};

/// What an error says of a file, with the place in it where that is known.
[[nodiscard]] std::string reason_at(const std::string& path, const Error& error);

/// Sees that golden files and candidates may be written: none is where CI is set.
/// Errors: kUsage there.
void check_may_write();

/// Sees that there is a reason for other bits. Errors: kUsage, of `path`, for none and for blanks.
void check_reason(const std::string& reason, const std::string& path = {});

/// Returns those of the files that have a candidate. Errors: kIncomplete where none has.
[[nodiscard]] std::vector<std::string> pending_of(const std::vector<std::string>& paths);

/// Makes a candidate the golden file.
void accept_candidate(const std::string& path, gate::Golden candidate, const std::string& reason);
void reject_candidate(const std::string& path);

/// Sees that a file says of which run it is. Errors: kIncomplete.
void check_says_run(const gate::Golden& golden, const std::string& path);

/// Sees that what was asked goes with the run of a golden file.
/// Errors: kUsage for what was asked of a run of ours where a file's is a command, or the reverse.
void check_asked(const gate::Golden& golden, const GoldenArguments& arguments,
                 const std::string& path);

/// The options of the run of a golden file, with what the flags say otherwise, which is named on
/// standard error; nothing of a file whose run is a command.
/// Errors: kUsage for a run that cannot be golden, and for what only the user may ask for;
/// kIncomplete where its checkpoint is not there.
[[nodiscard]] std::optional<RunOptions> options_now(const gate::Golden& golden,
                                                    const GoldenArguments& arguments,
                                                    const std::string& path);

/// What that run gives now. `twice`: a second time, too.
/// Errors: kUsage where a command that stands in the file was not asked for; those of the run.
[[nodiscard]] gate::Observation observe(const gate::Golden& golden,
                                        const std::optional<RunOptions>& options,
                                        const GoldenArguments& arguments, const std::string& path,
                                        bool twice);

/// The command that the user gave, or has agreed to. Errors: kUsage where there is none.
[[nodiscard]] std::string command_of(const gate::Golden& golden, const GoldenArguments& arguments,
                                     const std::string& path);
[[nodiscard]] std::chrono::milliseconds limit_of(const GoldenArguments& arguments);

/// What is known of why values differ.
struct FoundCause {
  std::optional<gate::Attribution> attribution = {};  // where a build was asked for
  std::string begins = {};  // the first event that differs, or value; empty without two dumps
};

/// Whether code or environment moved the values: the recorded commit is built and run here. Where
/// it left a dump, or the file names one, also where in the run the difference begins.
/// Errors: those of run_commit.
[[nodiscard]] FoundCause find_cause(const gate::Golden& golden, const GoldenArguments& arguments,
                                    const std::string& path, const gate::Observation& now);

/// Where the runs of two dumps part, in one line; empty where they do not, or one path is. What was
/// judged stands whether or not the dumps say it.
[[nodiscard]] std::string begins_at(const std::string& recorded, const std::string& now);

/// The content root of a dump, or of files of a framework. Errors: those of AnyDump.
[[nodiscard]] std::string root_of_dump(const std::string& path);

/// Errors: kUsage unless it is the dump that these values are of; those of AnyDump.
void check_dump(const std::string& path, const GoldenEntries& values);

/// The build of a file's commit that the user gave, or has agreed to.
[[nodiscard]] std::string build_of(const gate::Golden& golden, const GoldenArguments& arguments);

/// Why nothing can be run at the commit of a file; empty where it can.
[[nodiscard]] std::string problem_of_commit(const gate::Golden& golden);

/// Prints what rlbisect finds between the recorded commit and the one checked out, by the file's
/// tolerances where it has words for them, and else that it does not hold them.
/// Errors: kEnvironment.
void search_commit(const gate::Golden& golden, const GoldenArguments& arguments,
                   const std::string& path, const gate::GoldenVerdict& verdict);

/// What a new golden file, or a candidate, says of itself: class, commit, contract, program.
/// `run`: its command; empty for a run of ours. `build`: how its commit is built; empty: not said.
/// `may_be_changed`: the checkout need not be as committed, which is then said.
/// Errors: kUsage where it must be.
[[nodiscard]] GoldenEntries about_now(const std::string& run, const std::string& build,
                                      const std::string& path, const std::string& class_name,
                                      bool may_be_changed);

/// Where a difference begins, wrapped; empty where that is not known.
[[nodiscard]] std::string begins_line(const std::string& begins);

/// A line a difference, at most `limit` of them.
[[nodiscard]] std::string differences_text(const std::vector<gate::JudgedDifference>& differences,
                                           size_t limit);

}  // namespace rlreplay::replay
