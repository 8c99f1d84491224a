#include "src/bisect/verbs/search_options.h"

#include "src/base/build_info.h"
#include "src/replay/verbs/command_line.h"

namespace rlreplay::bisect {
namespace {

constexpr const char* kSearchFooter =
    R"(Two ends KEY=VALUE,... or two files of settings (JSON, YAML) are configurations: what makes their runs
differ is found among the keys in which they differ, by --run with the file RLBISECT_CONFIG, or --from, a dump
that is replayed (keys are options of rlreplay train, and dp, tp, cp, pp).

Two folders are dumps: nothing is run, all that is recorded is compared, and the first event
whose inputs agree and values differ is named. Other ends are git revisions: each is checked out in a fresh worktree, built and run; the
checkout of the repository is not touched. Both ends are run twice first. The search follows first
parents, goes down into a merge that is the culprit, and skips what cannot be built or run.

The --run command is run in the worktree, with RLBISECT_OUT set to an empty folder, and leaves
there dump/, a dump of rlreplay; or debug files of slime, Miles or Relax; or metrics.json,
{"loss": [0.5, 0.25], "reward": 1}; or only its exit code: 0 good, 1 to 124 bad, 125 cannot judge;
126, 127, a signal or an exception of Python is a crash and skipped. RLBISECT_REVISION is the commit, RLBISECT_REFERENCE what
the good end left.

Example:
  rlbisect v1.2..HEAD --repo ~/trainer --build 'make -j8' \
    --run './train --metrics $RLBISECT_OUT/metrics.json' --metric grad_norm
  rlbisect runs/before/..runs/after/
  rlbisect tp=1..tp=4,dp=2 --from dump/
  rlbisect good.json..bad.json --run './train --config $RLBISECT_CONFIG'
  rlbisect v1.2..HEAD --differ tp=1..tp=2 --run './train $RLBISECT_CONFIG'
  rlbisect changes v1.2..HEAD --run ./run.sh  # each that moves a number

Each run is stored in the repository's git folder as soon as it has ended, by its content, commands
and environment, and never made twice: `rlbisect resume` goes on with a search that was cut short,
`rlbisect status` says where it is, `rlbisect log` prints what `git bisect replay` reads, `rlbisect
gc` removes all of it.

`rlbisect op EVENT --from dump/` replays one operation from its recorded inputs, and
`rlbisect verdict --help` explains the verdict on a single checkout, for `git bisect run`.
Exit codes: 0 found, 1 nothing found, 125 cannot judge, 128 and above error or interrupted.)";

constexpr const char* kChangesFooter =
    R"(Runs the two ends, and the middle of any two revisions that differ, along first parents. What lies
between two revisions that agree is not run. --run and what it leaves are as of `rlbisect`.

Example:
  rlbisect changes v1.2..HEAD --run './train --metrics $RLBISECT_OUT/metrics.json'

Exit codes: 0 changes, 1 none, 125 cannot judge, 128 and above error or interrupted.)";

/// Which runs are made.
void add_run_options(CLI::App& app, SearchOptions& options) {
  app.add_option("ends", options.ends, "GOOD..BAD, or GOOD BAD")->expected(0, 2);
  app.add_option("--repo", options.repository, "the git repository (default: here)");
  add_common_options(app, options.common);
  app.add_option(
         "--path", options.paths,
         "a file or folder that the run depends on; given once or more, commits that change "
         "nothing there are not run")
      ->type_name("PATH")
      ->allow_extra_args(false);
  app.add_option(
         "--overlay", options.overlay,
         "a folder whose files are laid over each checkout: today's harness on old revisions")
      ->type_name("DIR")
      ->check(CLI::ExistingDirectory);
  app.add_option(
         "--launch", options.common.recipe.launch,
         "what stands before --run where it is to run on a cluster: srun -n1, or any program "
         "that runs its last words and waits")
      ->type_name("CMD");
  app.add_option(
         "--differ", options.differ,
         "two configurations, KEY=VALUE,... or files: what is found is the revision since "
         "which its runs with the two (RLBISECT_CONFIG) differ; such a pair counts as one run")
      ->type_name("A..B");
  app.add_option("--repeat-ends", options.end_runs,
                 "how often each end is run before the search: runs of one revision that differ "
                 "are noise (default: 2)")
      ->check(CLI::Range(1, 1000));
  app.add_option("-o,--out", options.output,
                 "new folder that keeps the logs and outputs of all runs");
  app.add_option("--max-runs", options.most_runs,
                 "stop after so many runs (resume goes on, but not with --fresh)")
      ->check(CLI::Range(1, 1000000));
  app.add_option(
         "-j,--jobs", options.jobs,
         "how many runs of the search go on at once, each in a worktree of its own path; ends "
         "and confirmations run one by one (default: 1)")
      ->check(CLI::Range(1, 64));
  app.add_flag("--fresh", options.fresh, "use and store no measurements");
  app.add_flag("--dry-run", options.dry_run, "say how many runs it takes, and run nothing");
}

/// What `changes` has not: one culprit to be confirmed, and its report.
void add_culprit_options(CLI::App& app, SearchOptions& options) {
  app.add_option("--from", options.from,
                 "of two configurations: the dump that rlreplay train takes again with them")
      ->type_name("DUMP");
  app.add_option("--dependency", options.dependencies,
                 "where the culprit changes the submodule at a path, the search goes on in a clone "
                 "of it")
      ->type_name("PATH=CLONE")
      ->allow_extra_args(false);
  app.add_option("--log", options.log,
                 "a log of git bisect log, whose verdicts are taken as they are; the ends may be "
                 "left out")
      ->type_name("FILE");
  app.add_option("--repeat-sides", options.side_runs,
                 "how often culprit and parent are run in all before one is blamed; more where a "
                 "fault comes and goes (default: 2)")
      ->check(CLI::Range(1, 1000));
  app.add_option("--stat", options.confidence,
                 "for runs that noise covers: find the revision with which the distribution of one "
                 "number or of the exit codes changes, with so much confidence (default: 0.95)")
      ->expected(0, 1)
      ->default_str("0.95")
      ->type_name("CONFIDENCE")
      ->check(CLI::Range(0.5, 0.999999));
  app.add_option("--markdown", options.markdown, "file for the report, to be pasted into an issue")
      ->type_name("FILE");
  app.add_option("--junit", options.junit, "file for the report as JUnit XML, a case a revision")
      ->type_name("FILE");
  app.add_option("--html", options.html, "file for the report as one page that needs nothing else")
      ->type_name("FILE");
  app.add_flag("--confirm-again", options.confirm_again,
               "run culprit and parent again, though stored runs confirm them");
  app.add_flag(
      "--all", options.all,
      "every skipped revision and suspect; of dumps every event that differs, and how many "
      "floats lie how far apart");
}

}  // namespace

void add_search_options(CLI::App& app, SearchOptions& options) {
  app.name(options.changes ? "rlbisect changes" : "rlbisect");
  app.description(
      options.changes
          ? "Lists every revision at which a run changes"
          : "Finds where a difference comes from: the revision, the step, the operation");
  replay::set_up_help(app);
  app.set_version_flag("-V,--version", "rlbisect " + program_version_line(),
                       "the program's version and build");
  add_run_options(app, options);
  if (!options.changes) add_culprit_options(app, options);
  app.footer(options.changes ? kChangesFooter : kSearchFooter);
}

}  // namespace rlreplay::bisect
