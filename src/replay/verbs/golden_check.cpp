#include <algorithm>
#include <iostream>

#include "src/base/error.h"
#include "src/base/shell.h"
#include "src/base/words.h"
#include "src/replay/gate/environment.h"
#include "src/replay/gate/pending.h"
#include "src/replay/gate/place.h"
#include "src/replay/options/config_file.h"
#include "src/replay/rerun/golden_run.h"
#include "src/replay/run/launched_rank.h"
#include "src/replay/run/machine.h"
#include "src/replay/verbs/golden_parts.h"
#include "src/replay/verbs/golden_report.h"

namespace rlreplay::replay {
namespace {

constexpr size_t kShownCheck = 5;

void print(const GoldenArguments& arguments, const Checked& c, bool passes) {
  const std::string text = arguments.json ? checked_json(c, passes) + '\n'
                                          : checked_text(c, arguments.all ? SIZE_MAX : kShownCheck);
  std::cout << (arguments.github ? gate::without_commands(text) : text);
}

/// What the run gives now, as the golden file it would be.
void keep_candidate(const GoldenArguments& arguments, const std::optional<RunOptions>& options,
                    gate::Observation now, Checked& checked) {
  gate::Golden candidate = checked.golden;
  if (options) candidate.options = golden_options(*options);
  const std::string recorded = gate::about(checked.golden, "run");
  candidate.about = about_now(recorded.empty() || arguments.run.empty() ? recorded : arguments.run,
                              gate::about(checked.golden, "build"), checked.path,
                              gate::key_of(checked.path).class_name, true);
  if (!checked.cause.begins.empty()) candidate.about["begins"] = checked.cause.begins;
  candidate.quarantine.reset();  // who accepts new bits has no mismatch left to excuse
  candidate.environment = std::move(now.environment);
  candidate.inputs = std::move(now.inputs);
  candidate.values = std::move(now.values);
  gate::keep_candidate(checked.path, checked.golden, std::move(candidate));
  checked.pending = gate::pending_path(checked.path);
}

/// What the run gives now. A candidate of an earlier run does not outlive one that gives nothing.
gate::Observation observe_now(const Checked& checked, const std::optional<RunOptions>& options,
                              const GoldenArguments& arguments) {
  try {
    return observe(checked.golden, options, arguments, checked.path, false);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInterrupted && !gate::in_ci()) {
      gate::drop_candidate(checked.path);
    }
    throw;
  }
}

Checked check_one(const GoldenArguments& arguments, const std::string& path) {
  Checked out{path};
  static_cast<void>(gate::key_of(path));
  out.golden = gate::read(path);
  const std::optional<RunOptions> options = options_now(out.golden, arguments, path);
  gate::Observation now = observe_now(out, options, arguments);
  out.judgement = gate::judge(out.golden, now);
  if (!out.judgement.differences.empty() && now.problem.empty()) {
    // What differs is looked at twice: a run that does not repeat itself is another finding.
    gate::Observation again;
    try {
      again = observe_now(out, options, arguments);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kInterrupted) throw;
      again.problem = error.what();
    }
    if (!again.problem.empty()) {
      now.problem = "run again, to see whether it repeats: " + again.problem;
    }
    now.again = std::move(again.values);
    out.judgement = gate::judge(out.golden, now);
  }
  if (out.judgement.outcome == gate::Outcome::kNotJudged)
    out.code = exit_code(ErrorCode::kIncomplete);
  const bool is_candidate = !out.judgement.differences.empty() && gate::acceptable(out.golden, now);
  if (is_candidate) out.cause = find_cause(out.golden, arguments, path, now);
  if (gate::in_ci()) return out;
  if (is_candidate) {
    try {
      keep_candidate(arguments, options, std::move(now), out);
    } catch (const Error& error) {  // what differs is said all the same
      if (error.code() == ErrorCode::kInterrupted) throw;
      std::cerr << "rlreplay: no candidate is kept: " << error.what() << '\n';
    }
  } else {
    gate::drop_candidate(path);
  }
  return out;
}

/// What is said of a path that cannot be judged.
Checked not_judged(const std::string& path, const Error& error) {
  Checked out{path};
  out.judgement.reason = reason_at(path, error);
  out.code = exit_code(error.code());
  return out;
}

/// check_one(), but an error becomes the file's own finding and does not hide those of others.
Checked check_among(const GoldenArguments& arguments, const std::string& path) {
  try {
    return check_one(arguments, path);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInterrupted) throw;
    return not_judged(path, error);
  }
}

/// How both runs become dumps, which say where they part: options that are overridden differ.
std::string commands_to_compare(const GoldenArguments& arguments, const std::string& path) {
  const auto capture = [&](const std::string& name, const std::string& flags) {
    return "  rlreplay golden check " + shell_word(path) + flags + " --print-config >" + name +
           ".yaml\n  rlreplay capture --config " + name + ".yaml --record ops+values -o " + name +
           "/\n";
  };
  return "where it begins, with then/ by the program that recorded and now/ by this one:\n" +
         capture("then", "") + capture("now", arguments.flags.command_line()) +
         "  rlreplay diff then/ now/\n";
}

/// The tests that have no file for this machine, which is no match.
Checked absent_of(const gate::Choice& choice) {
  const std::string reason =
      "there is no golden file of it for the classes of this machine, only " +
      choice.instead.front() + (choice.instead.size() > 1 ? " and others" : "");
  Checked absent{choice.test};
  absent.judgement.reason = reason;
  absent.code = exit_code(ErrorCode::kIncomplete);
  return absent;
}

int print_config(const GoldenArguments& arguments) {
  const gate::Golden golden = gate::read(arguments.file());
  check_asked(golden, arguments, arguments.file());
  const RunOptions recorded = options_of(golden.options);
  std::cout << options_yaml(arguments.flags.resolve_record(recorded));
  return 0;
}

/// What comes of the files that were judged so far.
struct Tally {
  int code = 0;
  size_t red = 0;
  std::vector<gate::Said> said = {};
};

/// Says what a file's check found, and counts it. Returns whether it passes.
bool say(const GoldenArguments& arguments, const Checked& c, Tally& tally) {
  const gate::Outcome outcome = c.judgement.outcome;
  const bool passes = gate::passes(outcome, arguments.strict) ||
                      gate::excused(outcome, c.golden.quarantine, gate::today());
  print(arguments, c, passes);
  tally.said.push_back(said_of(c, passes));
  if (passes) return true;
  ++tally.red;
  if (!arguments.on_fail.empty() && !c.judgement.differences.empty()) {
    search_commit(c.golden, arguments, c.path, c.judgement);
  }
  tally.code = c.code == 0 ? 1 : tally.code == 0 ? c.code : tally.code;
  return false;
}

/// Checks the one file that was asked for. What cannot be judged is an error, and is in the
/// reports.
int check_alone(const GoldenArguments& arguments, ReportFiles& reports) {
  const std::string path = arguments.file();
  Tally tally;
  std::string compare;
  try {
    const std::vector<std::string> files = gate::golden_files(arguments.paths);
    const Checked c = check_one(arguments, files.front());
    if (!say(arguments, c, tally) && !c.golden.options.empty() &&
        !c.judgement.differences.empty()) {
      compare = commands_to_compare(arguments, path);
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInterrupted) {
      reports.write(std::vector{said_of(not_judged(path, error), false)});
    }
    throw;
  }
  reports.write(tally.said);
  if (!arguments.json) std::cout << compare;
  return tally.code;
}

void print_other_classes(const std::vector<gate::Choice>& choices) {
  for (const gate::Choice& choice : choices) {
    if (choice.path.empty()) continue;
    for (const std::string& other : choice.instead) {
      std::cout << "not judged here, " << choice.path << " counts: " << other << '\n';
    }
  }
}

}  // namespace

int golden_check(const GoldenArguments& arguments) {
  if (!arguments.claim.empty()) return golden_claim(arguments);
  if (arguments.paths.empty()) {
    throw Error(ErrorCode::kUsage, "PATH is missing; see rlreplay golden check --help");
  }
  if (arguments.flags.print_config()) return print_config(arguments);
  check_first_process(own_environment());
  if (arguments.self_test) return golden_self_test(arguments);
  ReportFiles reports(arguments);
  const gate::FoundFiles found = gate::find_golden_files(arguments.paths);
  const bool is_file = found.files == arguments.paths;
  const bool is_nothing = found.files.empty() && found.damaged.empty();
  if (arguments.paths.size() == 1 && (is_file || is_nothing)) {
    return check_alone(arguments, reports);
  }
  const auto choices = gate::choose(found.all(), gate::classes_now(computing({})));
  Tally tally;
  for (const gate::Choice& choice : choices) {
    static_cast<void>(
        say(arguments,
            choice.path.empty() ? absent_of(choice) : check_among(arguments, choice.path), tally));
  }
  for (const Error& unread : found.unread) {
    static_cast<void>(say(arguments, not_judged(unread.where(), unread), tally));
  }
  reports.write(tally.said);
  if (arguments.json) return tally.code;
  print_other_classes(choices);
  std::cout << counted(tally.said.size(), "golden file") << ", " << tally.red
            << (tally.red == 1 ? " does" : " do") << " not pass\n";
  return tally.code;
}

}  // namespace rlreplay::replay
