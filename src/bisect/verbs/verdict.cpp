#include <CLI/App.hpp>
#include <iostream>

#include "src/base/error.h"
#include "src/bisect/current.h"
#include "src/bisect/report.h"
#include "src/bisect/verbs/common_options.h"
#include "src/bisect/verbs/search_verbs.h"
#include "src/replay/verbs/command_line.h"

namespace rlreplay::bisect {
namespace {

constexpr const char* kVerdictFooter =
    R"(Builds and runs the current folder and compares what the run leaves in RLBISECT_OUT with
--reference; without a reference the run's exit code is the verdict. With two paths nothing is run:
the second is compared with the first.

Example:
  mkdir ref && RLBISECT_OUT=$PWD/ref ./train.sh      # at the good revision
  git bisect start BAD GOOD
  git bisect run rlbisect verdict --build make --run ./train.sh \
    --reference $PWD/ref

Exit codes: 0 good, 1 bad, 125 cannot judge (git bisect skips it), 128 and above error or
interrupted (git bisect stops).)";

struct VerdictOptions {
  CommonOptions common;
  std::vector<std::string> paths;
  std::optional<std::string> reference;
};

Judgement ask(const VerdictOptions& options) {
  const bool has_run = !options.common.recipe.run.empty();
  if (has_run == (options.paths.size() == 2) || options.paths.size() == 1) {
    throw Error(ErrorCode::kUsage,
                "verdict needs either --run, to judge the current folder, or two paths to compare");
  }
  if (!has_run) {
    return judge_recorded(options.common.criterion, options.paths[0], options.paths[1]);
  }
  const Interrupt interrupt;
  return judge_current({options.common.recipe, options.common.criterion, options.reference},
                       interrupt);
}

int exit_code_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kGood:
      return kGoodExit;
    case Verdict::kBad:
      return kBadExit;
    case Verdict::kSkip:
      return kCannotJudgeExit;
  }
  return kErrorExit;
}

}  // namespace

int run_verdict(int argc, char** argv) {
  CLI::App app("Judges the current checkout, or compares two outputs", "rlbisect verdict");
  VerdictOptions options;
  replay::set_up_help(app);
  app.add_option("paths", options.paths, "reference and candidate: metrics files or output folders")
      ->expected(0, 2);
  app.add_option("--reference", options.reference, "what the good revision's run left");
  add_common_options(app, options.common);
  app.footer(kVerdictFooter);
  const auto ended = replay::read_words(app, {argv + 1, argv + argc});
  if (ended) return *ended;
  settle(options.common);
  const Judgement judgement = ask(options);
  if (options.common.json) {
    std::cout << verdict_json(judgement) << '\n';
  } else {
    std::cout << to_string(judgement.verdict) << ": " << judgement.reason << '\n';
  }
  return exit_code_of(judgement.verdict);
}

}  // namespace rlreplay::bisect
