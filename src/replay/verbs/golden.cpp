#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>

#include "src/base/number_text.h"
#include "src/replay/verbs/golden_parts.h"
#include "src/replay/verbs/verb.h"

namespace rlreplay::replay {
namespace {

constexpr const char* kGuide =
    "A golden file keeps the bits of a run as text that version control merges: a line a\n"
    "value, and what was run, on which commit and where. Check a folder of them in continuous\n"
    "integration; what differs waits outside of the tree until it is accepted with a reason.\n"
    "Commands of a golden file are run only where they are given again (docs/golden.md).\n\n";
constexpr const char* kExamples =
    "Examples:\n  rlreplay golden record goldens/demo.txt --model demo --steps 3\n"
    "  rlreplay golden record goldens/train.txt --run 'python train.py'\n"
    "  rlreplay golden check goldens/ --run-recorded\n"
    "  rlreplay golden accept goldens/demo.txt --reason \"new attention kernel\"";

using Part = int (*)(const GoldenArguments&);

/// A part of the verb, with its arguments.
struct Added {
  CLI::App* app;
  std::shared_ptr<GoldenArguments> arguments;  // what is run has them, too
};

/// Takes a number of seconds, as many as a clock can count.
CLI::Validator seconds() {
  return {[](const std::string& text) -> std::string {
            const auto value = parse_number<double>(text);
            if (value && *value >= 0 && *value <= 1e9) return {};
            return "--time-limit must be a number of seconds from 0 to 1e9, not " + text;
          },
          ""};
}

Added add_part(CLI::App& verb, VerbRun& chosen, const char* name, const char* help, Part part) {
  auto arguments = std::make_shared<GoldenArguments>();
  CLI::App* app = verb.add_subcommand(name, help);
  app->add_option("path", arguments->paths, "golden files, or folders of them")->required();
  app->footer(kExamples);
  app->callback([arguments, part, &chosen] { chosen = [=] { return part(*arguments); }; });
  return {app, arguments};
}

void add_run(const Added& part) {
  part.app->add_option("--run", part.arguments->run,
                       "somebody else's run, a command of the shell that leaves metrics.json, "
                       "dump/ or files of a framework in $RLBISECT_OUT");
  part.app
      ->add_option("--time-limit", part.arguments->time_limit,
                   "seconds that command may take (default: as long as it does)")
      ->check(seconds());
  part.arguments->flags.add(*part.app, kRunSections, {"save"});
}

void add_build(const Added& part) {
  part.app->add_option("--build", part.arguments->build,
                       "a command of the shell that builds a checkout of the run's commit, so that "
                       "a check tells code from environment; record keeps it");
}

void add_reason(const Added& part, const char* help) {
  part.app->add_option("--reason", part.arguments->reason, help);
}

void add_record(CLI::App& verb, VerbRun& chosen) {
  const Added part =
      add_part(verb, chosen, "record", "Run twice and write what both gave", golden_record);
  part.app->get_option("path")->expected(1)->description("the golden file");
  add_reason(part, "why these bits, kept in the file");
  part.app->add_option("--class", part.arguments->class_name,
                       "the class of environments in which the values hold (default: any for the "
                       "portable kernels, else the narrowest of this machine)");
  part.app->add_option(
      "--tolerance", part.arguments->tolerances,
      "\"PATTERN=4 ulps: WHY\", also relative and absolute: how far values may lie "
      "from the recorded ones; exact without");
  part.app->add_flag("--force", part.arguments->force,
                     "replace the file; without --model its options are kept");
  part.app->add_flag("--allow-changed", part.arguments->allow_changed,
                     "record from a checkout that is not as committed");
  part.app->add_option("--dump", part.arguments->dump,
                       "a dump of this run that is kept, so that a check says where in the run a "
                       "difference begins");
  add_build(part);
  add_run(part);
}

/// Adds --claim, which is of two commits and of no golden file: it excludes what speaks of files.
void add_claim(const Added& part) {
  CLI::Option* claim = part.app->add_option(
      "--claim", part.arguments->claim,
      "BASE..HEAD, without a golden file: where a commit's message has [bitwise], run their merge "
      "base and HEAD by --run, in checkouts of their own: one bit is a difference");
  for (const char* other : {"--run-recorded", "--on-fail", "--junit", "--sarif", "--gitlab",
                            "--github", "--self-test", "--strict"}) {
    claim->excludes(part.app->get_option(other));
  }
}

void add_check(CLI::App& verb, VerbRun& chosen) {
  const Added part =
      add_part(verb, chosen, "check", "Run again: exit code 1 where a value differs", golden_check);
  part.app->get_option("path")->required(false);
  part.app->add_flag("--run-recorded", part.arguments->run_recorded,
                     "run the commands that stand in the files");
  part.app->add_flag("--json", part.arguments->json, "print one JSON object a file");
  part.app
      ->add_option("--on-fail", part.arguments->on_fail,
                   "bisect: search the commit that made a difference, from the recorded one on")
      ->check(CLI::IsMember({"bisect"}))
      ->excludes(part.app->get_option("--json"));
  part.app->add_option("--junit", part.arguments->junit, "write a JUnit report to this file");
  part.app->add_option("--sarif", part.arguments->sarif, "write a SARIF report to this file");
  part.app->add_option("--gitlab", part.arguments->gitlab,
                       "write a Code Quality report of GitLab to this file");
  part.app
      ->add_flag("--github", part.arguments->github,
                 "print annotations of GitHub, the ten worst, and a table for the job's summary")
      ->excludes(part.app->get_option("--json"));
  CLI::Option* self_test = part.app->add_flag(
      "--self-test", part.arguments->self_test,
      "run nothing, and plant one ulp in each value: exit code 1 where one passes");
  part.app
      ->add_option("--inject", part.arguments->inject,
                   "EVENT:INDEX:ULPS, with --self-test: plant it in the run of rlreplay itself, as "
                   "train --inject does: exit code 1 where that passes")
      ->needs(self_test);
  part.app->add_flag("--strict", part.arguments->strict,
                     "drift of the environment within the tolerances does not pass");
  part.app->add_flag("--all", part.arguments->all, "list every difference");
  add_claim(part);
  add_build(part);
  add_run(part);
}

void add_golden_diff(CLI::App& verb, VerbRun& chosen) {
  const Added part =
      add_part(verb, chosen, "diff", "Compare two: exit code 1 where a value differs", golden_diff);
  part.app->get_option("path")->expected(2)->description("golden files, or names of tests");
  part.app->add_flag("--all", part.arguments->all, "list every difference");
}

void add_tighten(CLI::App& verb, VerbRun& chosen) {
  const Added part = add_part(verb, chosen, "tighten",
                              "Shrink tolerances to the noise of runs of now", golden_tighten);
  part.app->add_flag("--run-recorded", part.arguments->run_recorded,
                     "run the commands that stand in the files");
  part.app->add_option("--repeat", part.arguments->repeat, "runs to measure by")
      ->type_name("N")
      ->capture_default_str();
  add_run(part);
}

void add_quarantine(CLI::App& verb, VerbRun& chosen) {
  const Added part = add_part(verb, chosen, "quarantine",
                              "Let a mismatch that is known pass until a day", golden_quarantine);
  part.app->add_option("--until", part.arguments->until, "the last day, as 2026-12-31, in UTC");
  part.app->add_option("--owner", part.arguments->owner, "who will end it");
  add_reason(part, "why it is there, kept in the file");
  part.app->add_flag("--lift", part.arguments->lift, "end it now");
}

}  // namespace

void add_golden(CLI::App& program, VerbRun& chosen) {
  CLI::App* verb =
      program.add_subcommand("golden", "Keep the bits of runs in text files, and check them");
  verb->require_subcommand(1);
  verb->footer(std::string(kGuide) + kExamples);
  add_record(*verb, chosen);
  add_check(*verb, chosen);
  add_part(*verb, chosen, "review", "Ask of each candidate whether it is meant", golden_review);
  add_reason(add_part(*verb, chosen, "accept", "Make candidates the golden files", golden_accept),
             "why bits change, kept in the file");
  add_part(*verb, chosen, "reject", "Drop candidates", golden_reject);
  add_part(*verb, chosen, "list", "Name golden files and what is pending", golden_list);
  add_part(*verb, chosen, "explain", "Say which file counts here, and what it says of itself",
           golden_explain);
  add_golden_diff(*verb, chosen);
  add_tighten(*verb, chosen);
  add_quarantine(*verb, chosen);
  add_part(*verb, chosen, "fsck", "Look for files that could not be checked", golden_fsck);
}

}  // namespace rlreplay::replay
