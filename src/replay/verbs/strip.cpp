#include "src/replay/exchange/strip.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <iostream>

#include "src/base/error.h"
#include "src/base/json_line.h"
#include "src/base/json_value.h"
#include "src/base/words.h"
#include "src/replay/exchange/any_dump.h"
#include "src/replay/inspect/verified.h"
#include "src/replay/verbs/value_checks.h"
#include "src/replay/verbs/verb.h"

namespace rlreplay::replay {
namespace {

struct StripArguments {
  StripOptions options;
  std::vector<uint64_t> samples, only;
  std::vector<std::string> columns;
  std::string steps;
  bool json = false;
};

int run_strip(StripArguments& arguments) {
  StripOptions& options = arguments.options;
  options.judge = find_damage;
  check_imported(options.dump);
  options.samples = {arguments.samples.begin(), arguments.samples.end()};
  if (!arguments.only.empty()) options.only.emplace(arguments.only.begin(), arguments.only.end());
  options.columns = {arguments.columns.begin(), arguments.columns.end()};
  if (!arguments.steps.empty()) options.steps = chosen_part(options.dump, arguments.steps);
  if (options.takes_nothing()) {
    throw Error(ErrorCode::kUsage,
                "nothing is to be taken out: give --texts, --samples, --keep-samples, --columns or "
                "--steps",
                options.dump);
  }
  const StripReport report = strip(options);
  if (arguments.json) {
    std::cout << JsonLine()
                     .text("schema", "rlreplay.strip/1")
                     .integer("units", static_cast<int64_t>(report.units))
                     .integer("samples", static_cast<int64_t>(report.samples))
                     .json("columns", json_list(report.columns, json_quoted))
                     .json("also", json_list(report.also, json_quoted))
                     .text("root", report.root.hex())
                     .text("content", report.content.hex())
                     .str()
              << '\n';
    return 0;
  }
  std::cout << options.output << ": " << counted(report.units, "unit") << ", without "
            << counted(report.samples, "sample")
            << (report.columns.empty() ? "" : " and " + joined(report.columns, ", ")) << '\n';
  for (const std::string& what : report.also) std::cout << "also without " << what << '\n';
  std::cout << "root " << report.root.hex() << "\ncontent root " << report.content.hex() << '\n';
  return 0;
}

}  // namespace

void add_strip(CLI::App& program, VerbRun& chosen) {
  auto arguments = std::make_shared<StripArguments>();
  StripOptions& options = arguments->options;
  CLI::App* verb =
      program.add_subcommand("strip", "Take texts, samples or columns out before sharing");
  verb->add_option("dump", options.dump, "a sealed dump")->required();
  verb->add_option("-o,--output", options.output, "where the new dump goes")->required();
  verb->add_flag("--texts", options.texts, "take prompts, responses and labels out");
  auto* samples = verb->add_option("--samples", arguments->samples, "take these samples out, by id")
                      ->delimiter(',')
                      ->check(not_negative());
  verb->add_option("--keep-samples", arguments->only, "take all other samples out")
      ->delimiter(',')
      ->check(not_negative())
      ->excludes(samples);
  verb->add_option("--columns", arguments->columns, "take these columns out; events are one")
      ->delimiter(',');
  verb->add_option("--steps", arguments->steps,
                   "take all other steps out: A..B, each as 3.0 or counted from 0, B included");
  verb->add_option("--threads", options.threads)->capture_default_str();
  verb->add_flag("--force", options.replace, "replace the dump of -o, once the new one is whole");
  verb->add_flag("--json", arguments->json, "print one JSON object");
  verb->footer(
      "What may repeat it goes too, and is named: files of frameworks that an import kept, units\n"
      "of others, commands and machines, events of samples that were taken out. Token ids stay:\n"
      "whoever has the tokenizer can read them.\n\nExamples:\n"
      "  rlreplay strip dump/ -o shared/ --texts\n"
      "  rlreplay strip dump/ -o shared/ --keep-samples 3,7 --columns rewards,events\n"
      "  rlreplay strip dump/ -o shared/ --steps 2.0");
  verb->callback([=, &chosen] { chosen = [=] { return run_strip(*arguments); }; });
}

}  // namespace rlreplay::replay
