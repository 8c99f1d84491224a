#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <iostream>

#include "format/dump_place.h"
#include "src/base/atomic_file.h"
#include "src/base/error.h"
#include "src/base/shell.h"
#include "src/replay/exchange/any_dump.h"
#include "src/replay/inspect/mismatch_plot.h"
#include "src/replay/inspect/mismatch_report.h"
#include "src/replay/inspect/token_texts.h"
#include "src/replay/record/incomplete_record.h"
#include "src/replay/verbs/value_checks.h"
#include "src/replay/verbs/verb.h"

namespace rlreplay::replay {
namespace {

struct MismatchArguments {
  std::string path, model, plot, steps;
  MismatchOptions options;
  std::optional<double> tolerance;
  bool force = false;
  bool json = false;
};

void write_plot(const std::string& path, const std::string& svg) {
  AtomicFile file(path);
  file.write(svg);
  file.commit();
}

void check_plot(const MismatchArguments& arguments) {
  if (!arguments.plot.empty() && !arguments.plot.ends_with(".svg")) {
    throw Error(ErrorCode::kUsage, "--plot draws SVG: name a file that ends with .svg",
                arguments.plot);
  }
  if (arguments.plot.empty() && arguments.force) {
    throw Error(ErrorCode::kUsage, "--force replaces the file of --plot: name it");
  }
  if (arguments.plot.empty()) return;
  static_cast<void>(output_file(arguments.plot));  // refuses what is no file
  format::check_outside_dumps(arguments.plot);
  check_unoccupied(arguments.plot, arguments.force);
}

/// The table comes first: a plot that cannot be written does not take it away.
int mismatch(const MismatchArguments& arguments, const RecordedRun& run) {
  const std::optional<Tokenizer> tokenizer = find_tokenizer(run, arguments.model);
  Mismatch found = measure_mismatch(run, arguments.options);
  found.incomplete = incomplete_text(run);
  if (arguments.json) {
    std::cout << mismatch_json(found, tokenizer) << '\n';
  } else {
    std::cout << incomplete_line(run, arguments.path) << mismatch_text(found, tokenizer);
    if (found.all.max > 0) {
      std::cout << "\nnoise or an error? rlreplay train " << shell_word(arguments.path)
                << " --model DIR --forward\n";
    }
  }
  if (!arguments.plot.empty()) {
    write_plot(arguments.plot, mismatch_svg(found, "train against rollout: " + arguments.path));
    std::cerr << "plot in " << arguments.plot << '\n';
  }
  const bool beyond = arguments.tolerance && found.all.max > *arguments.tolerance;
  return beyond || found.all.nonfinite > 0 ? 1 : 0;
}

}  // namespace

void add_mismatch(CLI::App& program, VerbRun& chosen) {
  auto arguments = std::make_shared<MismatchArguments>();
  CLI::App* verb = program.add_subcommand(
      "mismatch", "Train against rollout log-probabilities: how far apart, and where");
  verb->add_option("--from,dump", arguments->path, "a dump, or files of slime, Miles or Relax")
      ->required();
  verb->add_option("--steps", arguments->steps,
                   "steps to measure: A..B, each as 3.0 or counted from 0, B included");
  verb->add_option("--model", arguments->model,
                   "folder with the tokenizer.json that worst tokens are shown by");
  verb->add_option("--tis-clip", arguments->options.tis_high,
                   "upper bound of the truncated importance weight [2]");
  verb->add_option("--tis-clip-low", arguments->options.tis_low, "its lower bound [0]");
  verb->add_option("--worst", arguments->options.worst, "how many of the worst tokens to list [8]")
      ->check(CLI::NonNegativeNumber);
  verb->add_option("--plot", arguments->plot, "also draw it, as an SVG file");
  verb->add_flag("--force", arguments->force, "replace the file of --plot");
  verb->add_option("--tolerance", arguments->tolerance,
                   "exit with 1 where forward_logp_max_diff exceeds it")
      ->check(finite_not_negative());
  verb->add_flag("--json", arguments->json, "print one JSON object");
  verb->footer(
      "Only tokens with loss mask 1 count. KL estimates are of KL(rollout || train) on the\n"
      "rollout's tokens: k1 = -d, k2 = d^2/2, k3 = exp(d) - 1 - d with d = train - rollout. The\n"
      "train side is the trainer's log-probabilities before the rollout's first update. Exit code\n"
      "1 where a pair is not finite, or beyond --tolerance.\n\n"
      "Examples:\n  rlreplay mismatch dump/ --plot mismatch.svg\n"
      "  rlreplay mismatch dump/ --steps 3.0..\n"
      "  rlreplay mismatch dump_details/ --model Qwen2.5-0.5B --tolerance 0.05");
  verb->callback([=, &chosen] {
    chosen = [=] {
      check_plot(*arguments);
      return with_dump(
          arguments->path, [&](const AnyDump& dump) { return mismatch(*arguments, dump.run()); },
          arguments->steps);
    };
  });
}

}  // namespace rlreplay::replay
