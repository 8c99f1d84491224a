#include "src/replay/exchange/pack.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <iostream>

#include "src/base/error.h"
#include "src/base/words.h"
#include "src/replay/exchange/any_dump.h"
#include "src/replay/inspect/verified.h"
#include "src/replay/verbs/value_checks.h"
#include "src/replay/verbs/verb.h"

namespace rlreplay::replay {
namespace {

struct PackArguments {
  PackOptions options;
  std::string strip, open;
  bool json = false;
};

void check_arguments(const PackArguments& arguments) {
  const PackOptions& options = arguments.options;
  if (arguments.open.empty() && options.dump.empty()) {
    throw Error(ErrorCode::kUsage, "give the dump to be packed, or --open FILE to unpack one");
  }
  const bool cuts = !options.dump.empty() || !options.steps.empty() || !arguments.strip.empty();
  if (!arguments.open.empty() && cuts) {
    throw Error(ErrorCode::kUsage, "--open unpacks all of the file: give it and -o alone");
  }
}

void print(const PackArguments& arguments, const Pack& pack) {
  const bool opens = !arguments.open.empty();
  std::cout << (opens ? arguments.open : arguments.options.output) << ": "
            << (pack.steps.empty() ? "all steps" : "steps " + pack.steps) << ", "
            << counted(pack.units, "unit") << '\n';
  for (const std::string& what : pack.without) std::cout << "without " << what << '\n';
  std::cout << "opened again, every byte is as packed: content " << pack.content << '\n';
  if (!opens) std::cout << "open it   rlreplay pack --open FILE -o dump/\n";
  std::cout << "see it    " << pack.reproduce << '\n';
}

int run_pack(PackArguments& arguments) {
  check_arguments(arguments);
  PackOptions& options = arguments.options;
  Pack made;
  if (arguments.open.empty()) {
    check_imported(options.dump);
    options.texts = !arguments.strip.empty();
    options.judge = find_damage;
    made = pack(options);
  } else {
    made = open_pack(arguments.open, options.output, options.replace, find_unit_damage);
  }
  if (arguments.json) {
    std::cout << made.json() << '\n';
  } else {
    print(arguments, made);
  }
  return 0;
}

}  // namespace

void add_pack(CLI::App& program, VerbRun& chosen) {
  auto arguments = std::make_shared<PackArguments>();
  PackOptions& options = arguments->options;
  CLI::App* verb =
      program.add_subcommand("pack", "A dump, or a step of it, as one file for a ticket");
  verb->add_option("dump", options.dump, "a sealed dump");
  verb->add_option("-o,--output", options.output, "the file; with --open, the folder of the dump")
      ->required();
  verb->add_option("--step,--steps", options.steps,
                   "this step (3.0, or counted from 0), or A..B, and what it starts from");
  verb->add_option("--strip", arguments->strip, "take prompts, responses and labels out")
      ->check(one_of({}, {"texts"}));
  verb->add_option("--open", arguments->open, "unpack this file");
  verb->add_option("--threads", options.threads)->capture_default_str();
  verb->add_flag("--force", options.replace, "replace what has the name of -o");
  verb->add_flag("--json", arguments->json, "print one JSON object");
  verb->footer(
      "The file is a zip archive of the dump's folder and of pack.json, which says the command,\n"
      "versions and machine of the run, without the machine's name, and how to see it again. A\n"
      "step is packed with the steps from the last recorded state on, so that it can be taken\n"
      "again. Before the file has its name it was opened again, and every byte and the content\n"
      "root compared; so is what --open unpacks. Token ids stay with --strip texts: whoever has\n"
      "the tokenizer can read them.\n\nExamples:\n"
      "  rlreplay pack dump/ --step 2.0 --strip texts -o ticket.zip\n"
      "  rlreplay pack --open ticket.zip -o dump/");
  verb->callback([=, &chosen] { chosen = [=] { return run_pack(*arguments); }; });
}

}  // namespace rlreplay::replay
