#include "src/replay/rerun/why.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <iostream>
#include <memory>

#include "src/base/error.h"
#include "src/replay/exchange/any_dump.h"
#include "src/replay/record/recorded_step.h"
#include "src/replay/run/machine.h"
#include "src/replay/verbs/verb.h"

namespace rlreplay::replay {
namespace {

struct WhyArguments {
  std::string dump, element;
  bool all = false, json = false;
};

int explain_element(const WhyArguments& arguments, const RecordedRun& record) {
  const ElementQuestion question = parse_element(arguments.element);
  if (imported_from(record.dump().meta(), record.path())) {
    throw Error(ErrorCode::kUnsupported,
                "elements are followed back in a dump that rlreplay captured: this one was "
                "imported",
                arguments.dump);
  }
  RunOptions options = record.config().options;
  if (options.kernels != "portable") {
    throw Error(ErrorCode::kUnsupported,
                "elements are followed back where sums are exact: this run was computed by "
                "--kernels " +
                    options.kernels,
                arguments.dump);
  }
  // The numbers of any layout are those of one rank.
  options.layout = {};
  Machine machine(options);
  const auto model = recorded_model(record);
  Trainer trainer(machine.runtime(), options, *model, {.longest_prompt = longest_prompt(record)});
  const ElementOrigin origin = find_origin(record, options, question, trainer, machine.pool());
  if (arguments.json) {
    std::cout << origin_json(origin, record.path()) << std::endl;
  } else {
    std::cout << origin_text(origin, arguments.all);
  }
  return origin.holds() ? 0 : 1;
}

}  // namespace

void add_why(CLI::App& program, VerbRun& chosen) {
  auto arguments = std::make_shared<WhyArguments>();
  CLI::App* verb = program.add_subcommand(
      "why", "Follow one number of a recorded step back to what it was computed from");
  verb->add_option("dump", arguments->dump, "dump that rlreplay captured")->required();
  verb->add_option("element", arguments->element,
                   "EVENT:INDEX, as train --inject has them (docs/events.md)")
      ->required();
  verb->add_flag("--all", arguments->all, "every leaf of a gradient, and every token");
  verb->add_flag("--json", arguments->json, "one object");
  verb->footer(
      "The step is taken again from its recorded state. A gradient is a sum of integers, so it\n"
      "is given to the bit by the leaves (up to 256 tokens of a sample) that it adds up; inside\n"
      "a leaf the tokens' products are shown in binary64, with what roundings have left. That\n"
      "of an output head is given by samples.\n"
      "Exit code 1: the step does not give its record again, or the parts are not the gradient.\n\n"
      "Examples:\n  rlreplay why dump/ 2.0/backward/0/down/dx:1234\n"
      "  rlreplay why dump/ 2.0/reduce/0/gradient/model.layers.0.mlp.down_proj.weight:7\n"
      "  rlreplay why dump/ 2.0/optimizer/-/weight/model.norm.weight:0 --json");
  verb->callback([=, &chosen] {
    chosen = [=] {
      return with_dump(arguments->dump, [&](const AnyDump& dump) {
        return explain_element(*arguments, dump.run());
      });
    };
  });
}

}  // namespace rlreplay::replay
