#include <CLI/App.hpp>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <map>

#include <unistd.h>

#include "src/base/atomic_file.h"
#include "src/base/environment_error.h"
#include "src/base/error.h"
#include "src/base/shell.h"
#include "src/base/terminal.h"
#include "src/base/words.h"
#include "src/bisect/changes_report.h"
#include "src/bisect/configuration_search.h"
#include "src/bisect/divergence_page.h"
#include "src/bisect/ends.h"
#include "src/bisect/git.h"
#include "src/bisect/report.h"
#include "src/bisect/report_files.h"
#include "src/bisect/revisions.h"
#include "src/bisect/session.h"
#include "src/bisect/verbs/live_screen.h"
#include "src/bisect/verbs/search_options.h"
#include "src/bisect/verbs/search_verbs.h"
#include "src/replay/compare/dumps_difference_report.h"
#include "src/replay/exchange/any_dump.h"
#include "src/replay/exchange/source_files.h"
#include "src/replay/verbs/command_line.h"
#include "src/replay/verbs/end_on_signal.h"
#include "src/replay/verbs/engine_half.h"

namespace rlreplay::bisect {
namespace {

/// A file for a report that cannot be written is found before anything runs.
/// Errors: as of output_file; kIncomplete, kEnvironment.
void check_files(const SearchOptions& options) {
  for (const std::string& path : {options.markdown, options.junit, options.html}) {
    if (path.empty()) continue;
    std::error_code absent;
    const bool is_folder = std::filesystem::is_directory(path, absent);
    const auto folder =
        std::filesystem::absolute(is_folder ? path : output_file(path)).parent_path();
    if (!std::filesystem::is_directory(folder, absent)) {
      throw Error(ErrorCode::kIncomplete, "there is no folder for this report", path);
    }
    if (is_folder || ::access(folder.c_str(), W_OK) != 0) {
      throw environment_error("this report cannot be written there", path,
                              is_folder ? EISDIR : errno);
    }
  }
}

int exit_code_of(SearchResult result) {
  switch (result) {
    case SearchResult::kFound:
      return kGoodExit;
    case SearchResult::kNothing:
      return kBadExit;
    case SearchResult::kCannotJudge:
      return kCannotJudgeExit;
  }
  return kErrorExit;
}

int print_forecast(const Forecast& forecast) {
  std::printf("%s between the ends, at most %s%s\n",
              counted(forecast.revisions, "revision").c_str(),
              counted(forecast.most, "run").c_str(), forecast.condition.c_str());
  if (forecast.seconds) {
    std::printf("a run took %.1f s: at most %.0f s\n", *forecast.seconds,
                *forecast.seconds * static_cast<double>(forecast.most));
  }
  return kGoodExit;
}

void write_file(const std::string& path, const std::string& text) {
  if (path.empty()) return;
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

void write_files(const SearchOptions& options, const RevisionQuestion& question,
                 const Finding& finding) {
  if (!options.markdown.empty()) write_file(options.markdown, report_markdown(question, finding));
  if (!options.junit.empty()) write_file(options.junit, report_junit(finding));
  if (!options.html.empty()) write_file(options.html, report_html(question, finding));
}

int print_changes(const SearchOptions& options, const RevisionQuestion& question,
                  const Interrupt& interrupt) {
  const Changes changes = find_changes(question, interrupt, live_screen());
  std::cout << (options.common.json ? changes_json(changes) + "\n" : changes_text(changes));
  if (!changes.refused.empty()) return kCannotJudgeExit;
  return changes.found.empty() ? kBadExit : kGoodExit;
}

/// `PATH=CLONE`. Errors: kUsage.
std::map<std::string, std::string> clones_of(const std::vector<std::string>& words) {
  std::map<std::string, std::string> clones;
  for (const std::string& word : words) {
    const size_t sign = word.find('=');
    if (sign == word.npos || sign == 0) {
      throw Error(ErrorCode::kUsage, "write --dependency PATH=CLONE", word);
    }
    clones[word.substr(0, sign)] = word.substr(sign + 1);
  }
  return clones;
}

/// Of `--differ A..B`. Errors: kUsage where these are not two configurations that differ.
Comparison comparison_of(const SearchOptions& options) {
  const Ends ends =
      parse_ends(std::vector{options.differ}, [](const std::string&) { return false; });
  if (ends.axis != Axis::kConfigurations) {
    throw Error(ErrorCode::kUsage, "write --differ A..B, two configurations", options.differ);
  }
  const Configuration first = configuration_of(ends.good), second = configuration_of(ends.bad);
  if (differences_of(first, second).empty()) {
    throw Error(ErrorCode::kUsage, "the two configurations do not differ", options.differ);
  }
  return {options.differ, first, second, options.common.criterion};
}

void report(const SearchOptions& options, const RevisionQuestion& question,
            const Finding& finding) {
  std::cout << (options.common.json ? report_json(question, finding) + "\n"
                                    : report_text(question, finding, options.length()))
            << std::flush;
  write_files(options, question, finding);
}

/// What was found stands whether or not the dumps say where they part: a signal meanwhile ends the
/// program with a report of it.
void drill_down(const SearchOptions& options, const RevisionQuestion& question, Finding& finding) {
  if (finding.dumps.first.empty()) return;
  replay::EndOnSignal on_signal(false, "rlbisect");  // with --json the report is the one document
  const replay::EndOnSignal::Before words(on_signal, [&options, &question, finding]() mutable {
    finding.undrilled = "the dumps were not compared: interrupted";
    try {
      report(options, question, finding);
    } catch (const Error& error) {
      return error;
    }
    return Error(ErrorCode::kInterrupted, options.fresh
                                              ? "interrupted: the report lacks where the dumps part"
                                              : "interrupted" + going_on(false));
  });
  try {
    finding.drilled =
        compare_dumps(finding.dumps.first, finding.dumps.second, replay::element_finder());
  } catch (const Error& error) {
    finding.undrilled = error.where() + ": " + error.what();
  }
}

int search_revisions(const SearchOptions& options, const Ends& ends) {
  if (!options.from.empty()) {
    throw Error(ErrorCode::kUsage, "--from is for two configurations, KEY=VALUE or files");
  }
  if (options.common.recipe.run.empty()) {
    throw Error(ErrorCode::kUsage, "a search over revisions needs --run, the command to judge by");
  }
  if (options.dry_run && options.confidence) {
    throw Error(ErrorCode::kUsage,
                "how many runs --stat takes depends on what they give: bound it by --max-runs");
  }
  if (options.jobs > 1 && options.confidence) {
    throw Error(ErrorCode::kUsage, "--stat asks for one run after the other: leave out --jobs");
  }
  SearchPlan plan{.criterion = options.common.criterion};
  plan.end_runs = options.end_runs;
  plan.side_runs = options.side_runs;
  plan.jobs = options.jobs;
  plan.confidence = options.confidence;
  plan.confirm_again = options.confirm_again;
  Recipe recipe = options.common.recipe;
  if (!options.differ.empty()) {
    recipe.comparison = comparison_of(options);
    recipe.log_probs = options.common.criterion.needs_log_probs();
    plan.criterion = {};
  }
  recipe.overlay = options.overlay;
  const RevisionQuestion question{.repository = options.repository,
                                  .good = ends.good,
                                  .bad = ends.bad,
                                  .recipe = recipe,
                                  .plan = plan,
                                  .paths = options.paths,
                                  .dependencies = clones_of(options.dependencies),
                                  .log = options.log,
                                  .output = options.output,
                                  .words = options.words,
                                  .most_runs = options.most_runs,
                                  .fresh = options.fresh};
  const Interrupt interrupt;
  ignore_broken_pipes();  // who reads the progress may stop
  if (options.dry_run) {
    return print_forecast(options.changes ? forecast_changes(question, interrupt)
                                          : forecast(question, interrupt));
  }
  if (options.changes) return print_changes(options, question, interrupt);
  Finding finding = find_revision(question, interrupt, live_screen());
  drill_down(options, question, finding);
  report(options, question, finding);
  return exit_code_of(finding.result);
}

/// The options of a list that the user gave, joined by commas.
std::string given_of(const CLI::App& app, std::initializer_list<const char*> names) {
  std::string given;
  for (const char* name : names) {
    if (app.count(name) > 0) given += (given.empty() ? "" : ", ") + std::string(name);
  }
  return given;
}

/// An error of a unit names the dump that cannot be read.
replay::DumpsDifference compare_ends(const Ends& ends) {
  try {
    return compare_dumps(ends.good, ends.bad, replay::element_finder());
  } catch (const Error& error) {
    for (const std::string& end : {ends.good, ends.bad}) {
      const replay::AnyDump dump(end);
      if (!dump.reads(error)) throw dump.named(error);
    }
    throw;
  }
}

int search_dumps(const SearchOptions& options, const Ends& ends, const CLI::App& app) {
  const std::string ignored =
      given_of(app, {"--run",         "--build",         "--timeout", "--repo",     "--out",
                     "--repeat-ends", "--repeat-sides",  "--path",    "--overlay",  "--log",
                     "--dependency",  "--stat",          "--exclude", "--bad-exit", "--max-runs",
                     "--fresh",       "--confirm-again", "--dry-run", "--metric",   "--tolerance",
                     "--from",        "--markdown",      "--junit",   "--jobs",     "--launch"});
  if (!ignored.empty()) {
    throw Error(ErrorCode::kUsage,
                "two folders are dumps, of which nothing is run and all that is recorded is "
                "compared by its bits: leave out " +
                    ignored + "; to mean revisions of these names, write refs/heads/NAME",
                ends.good + ".." + ends.bad);
  }
  for (const std::string& end : {ends.good, ends.bad}) {
    if (replay::is_native_dump(end) || replay::find_sources({end}, ".pt").empty()) continue;
    throw Error(ErrorCode::kUsage,
                "these are files of slime, Miles or Relax, not a dump: compare them with rlreplay "
                "diff " +
                    shell_word(ends.good) + " " + shell_word(ends.bad),
                end);
  }
  const replay::DumpsDifference difference = compare_ends(ends);
  const std::string command = "rlbisect " + shell_word(ends.good) + " " + shell_word(ends.bad);
  std::cout << (options.common.json
                    ? diff_json(difference, command) + "\n"
                    : dumps_text(difference, ends.good, ends.bad, command, options.length()))
            << std::flush;
  if (!options.html.empty()) {
    write_file(options.html, dumps_html(difference, ends.good, ends.bad,
                                        dumps_text(difference, ends.good, ends.bad, command,
                                                   replay::ReportLength::kAll)));
  }
  return difference.identical() ? kBadExit : kGoodExit;
}

/// As it was given, but for what bounds it or changes only what it prints.
std::string command_of(const SearchOptions& options) {
  std::string command = "rlbisect";
  for (size_t i = 0; i < options.words.size(); ++i) {
    const std::string& word = options.words[i];
    if (word == "--max-runs") ++i;
    if (word == "--json" || word.starts_with("--max-runs")) continue;
    command += " " + shell_word(word);
  }
  return command;
}

int search_configurations(const SearchOptions& options, const Ends& ends, const CLI::App& app) {
  const std::string ignored =
      given_of(app, {"--build", "--repo", "--path", "--overlay", "--log", "--dependency", "--stat",
                     "--fresh", "--confirm-again", "--dry-run", "--all", "--markdown", "--junit",
                     "--html", "--jobs"});
  if (!ignored.empty()) {
    throw Error(
        ErrorCode::kUsage,
        "two configurations are run in this folder, and nothing is stored: leave out " + ignored,
        ends.good + ".." + ends.bad);
  }
  if (options.common.recipe.run.empty() == options.from.empty()) {
    throw Error(ErrorCode::kUsage,
                "a search over configurations needs either --run, a command that reads the file "
                "RLBISECT_CONFIG, or --from, a dump to be replayed");
  }
  std::error_code absent;
  if (!options.from.empty() && !std::filesystem::exists(options.from, absent)) {
    throw Error(ErrorCode::kIncomplete, "there is no such dump", options.from);
  }
  const ConfigurationQuestion question{.good = configuration_of(ends.good),
                                       .bad = configuration_of(ends.bad),
                                       .recipe = options.common.recipe,
                                       .from = options.from,
                                       .criterion = options.common.criterion,
                                       .end_runs = options.end_runs,
                                       .side_runs = options.side_runs,
                                       .most_runs = options.most_runs,
                                       .output = options.output};
  const Interrupt interrupt;
  ignore_broken_pipes();
  const ConfigurationFinding finding = find_configuration(question, interrupt);
  std::cout << (options.common.json ? configuration_json(finding, command_of(options)) + "\n"
                                    : configuration_text(finding, command_of(options)));
  return exit_code_of(finding.result);
}

/// Errors: kUsage for a single word that is no two ends and looks like a verb.
void check_verb(const SearchOptions& options) {
  if (options.changes || options.ends.size() != 1) return;
  const std::string& word = options.ends.front();
  std::vector<std::string> verbs = {"changes", "verdict", "op", "help"};
  verbs.insert(verbs.end(), std::begin(kStoredVerbs), std::end(kStoredVerbs));
  const auto meant = word.find("..") == word.npos ? nearest(word, verbs) : std::nullopt;
  if (!meant) return;
  throw Error(ErrorCode::kUsage,
              "this is neither a verb nor two ends, GOOD..BAD or GOOD BAD: did you mean rlbisect " +
                  *meant + "?",
              word);
}

int search(const SearchOptions& options, const CLI::App& app) {
  if (options.ends.empty() && options.log) return search_revisions(options, {});
  check_verb(options);
  const Ends ends = parse_ends(options.ends, [&](const std::string& name) {
    return try_resolve(options.repository, name).has_value();
  });
  if (options.changes && ends.axis != Axis::kRevisions) {
    throw Error(ErrorCode::kUsage, "changes are those of revisions", ends.good + ".." + ends.bad);
  }
  switch (ends.axis) {
    case Axis::kRevisions:
      return search_revisions(options, ends);
    case Axis::kDumps:
      return search_dumps(options, ends, app);
    case Axis::kConfigurations:
      return search_configurations(options, ends, app);
  }
  return kErrorExit;
}

/// `began`: the ends of a search that goes on.
int search_by(int argc, char** argv, const std::optional<Ends>& began) {
  SearchOptions options;
  options.changes = argc > 1 && std::string_view(argv[1]) == "changes";
  CLI::App app;
  add_search_options(app, options);
  const auto ended = replay::read_words(app, {argv + (options.changes ? 2 : 1), argv + argc});
  if (ended) return *ended;
  settle(options.common);
  check_files(options);
  options.words.assign(argv + 1, argv + argc);
  return began ? search_revisions(options, *began) : search(options, app);
}

}  // namespace

int run_search(int argc, char** argv) { return search_by(argc, argv, std::nullopt); }

int run_search_between(int argc, char** argv, const std::string& good, const std::string& bad) {
  return search_by(argc, argv, Ends{Axis::kRevisions, good, bad});
}

}  // namespace rlreplay::bisect
