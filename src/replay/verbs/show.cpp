#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <filesystem>
#include <iostream>

#include "format/foreign/canonical_json.h"
#include "format/foreign/dump_check.h"
#include "format/foreign/framework.h"
#include "format/foreign/torch_file.h"
#include "src/base/error.h"
#include "src/base/json_line.h"
#include "src/base/json_value.h"
#include "src/replay/exchange/any_dump.h"
#include "src/replay/exchange/import_sources.h"
#include "src/replay/inspect/show_dump.h"
#include "src/replay/inspect/show_event.h"
#include "src/replay/inspect/show_sample.h"
#include "src/replay/inspect/token_texts.h"
#include "src/replay/record/incomplete_record.h"
#include "src/replay/verbs/value_checks.h"
#include "src/replay/verbs/verb.h"

namespace rlreplay::replay {
namespace {

struct ShowArguments {
  std::string path, tokenizer, event;
  ShowOptions options;
};

/// What must be said of a file although it can be read.
std::vector<foreign::Problem> problems_of(const foreign::TorchFile& file) {
  std::vector<foreign::Problem> problems = file.problems();
  for (const foreign::Problem& problem : check_dump(file.tree(), file.root())) {
    problems.push_back(problem);
  }
  return problems;
}

/// The whole content of a file of torch.save as one JSON object.
void print_content(const foreign::TorchFile& file) {
  const auto problems = json_list(problems_of(file), [](const foreign::Problem& problem) {
    return JsonLine()
        .text("code", problem.code)
        .text("message", problem.message)
        .text("where", problem.where)
        .str();
  });
  std::cout << "{\"schema\":\"rlreplay.torch/1\",\"archive_root\":"
            << json_quoted(file.archive_root()) << ",\"problems\":" << problems << ",\"root\":";
  write_canonical_json(file.tree(), file.root(),
                       [](std::string_view piece) { std::cout << piece; });
  std::cout << "}\n";
}

bool is_summary(const ShowOptions& options) {
  return !options.samples && !options.sample && !options.step && !options.rollout &&
         !options.tensor;
}

/// Why a dump is not whole; nothing where its options cannot be read: it is shown all the same.
std::string shown_incomplete(const RecordedRun& run) {
  try {
    return incomplete_text(run);
  } catch (const Error&) {
    return "";
  }
}

void print_dump(const ShowArguments& arguments, const AnyDump& dump) {
  ShowOptions options = arguments.options;
  if (!arguments.event.empty()) {
    std::cout << show_event(dump.run(),
                            {arguments.event, options.rank, options.sample, options.json});
    return;
  }
  options.temporary = dump.is_temporary();
  options.incomplete = shown_incomplete(dump.run());
  if (!options.incomplete.empty() && !options.json && !options.text) {
    std::cout << "note: " << dump.path() << ": " << options.incomplete << '\n';
  }
  std::optional<Tokenizer> tokenizer;
  if (options.sample) tokenizer = find_tokenizer(dump.run(), arguments.tokenizer);
  if (options.sample && options.text && !options.json) {
    return print_sample_text(dump.reader(), options, tokenizer, std::cout);
  }
  if (tokenizer) options.token_text = [&](int32_t id) { return token_text(tokenizer, id); };
  show_dump(dump.reader(), options, std::cout);
}

/// Shows a file. It is parsed here for what it is and what is wrong with it, and again where it is
/// imported: an import takes paths, and one that cannot be imported has its head shown.
void show_file(const ShowArguments& arguments) {
  const foreign::TorchFile file(arguments.path);
  if (arguments.options.json) return print_content(file);
  const foreign::DumpIdentity identity = identify_dump(file.tree(), file.root());
  const bool known = identity.kind != foreign::DumpKind::kNone;
  std::cout << arguments.path << "  " << (known ? identity.layout : "no dump of a trainer") << '\n';
  for (const foreign::Problem& problem : problems_of(file)) {
    std::cout << "problem " << problem.code << ": " << problem.message << " (" << problem.where
              << ")\n";
  }
  if (!known) std::cout << "its content: rlreplay show --json " << arguments.path << '\n';
  if (!known || identity.kind == foreign::DumpKind::kPolicyLoss) return;
  with_dump(arguments.path, [&](const AnyDump& dump) { print_dump(arguments, dump); });
}

void check_arguments(const ShowArguments& arguments) {
  const ShowOptions& options = arguments.options;
  const auto refuse = [](const char* what) { throw Error(ErrorCode::kUsage, what); };
  if (!options.sort.empty() && !options.samples) refuse("--sort is for --samples");
  if (options.rank && !options.step && arguments.event.empty()) {
    refuse("--rank is for --step and --event");
  }
  if (!arguments.tokenizer.empty() && !options.sample) refuse("--tokenizer is for --sample");
  check_no_part(arguments.path);
  check_no_unnamed_lines(arguments.path);
}

int show(const ShowArguments& arguments) {
  check_arguments(arguments);
  const bool one_file = !std::filesystem::is_directory(arguments.path) &&
                        !arguments.path.ends_with(".jsonl") && is_summary(arguments.options) &&
                        arguments.event.empty();
  if (one_file) {
    show_file(arguments);
  } else {
    with_dump(arguments.path, [&](const AnyDump& dump) { print_dump(arguments, dump); });
  }
  return 0;
}

}  // namespace

void add_show(CLI::App& program, VerbRun& chosen) {
  auto arguments = std::make_shared<ShowArguments>();
  ShowOptions& options = arguments->options;
  CLI::App* verb = program.add_subcommand("show", "What is inside a dump, or a file of torch.save");
  verb->add_option("--from,dump", arguments->path, "a dump, or files of slime, Miles or Relax")
      ->required();
  verb->add_flag("--samples", options.samples, "a line a sample");
  verb->add_option("--sort", options.sort,
                   "order of --samples: reward (the smallest first) or length")
      ->check(CLI::IsMember({"reward", "length"}));
  verb->add_option("--sample", options.sample, "one sample, by id: its tokens and their numbers")
      ->check(not_negative());
  verb->add_option("--rollout", options.rollout, "the rollout of the sample or tensor");
  verb->add_option("--step", options.step, "what is recorded of a step, as 3.0");
  verb->add_option("--rank", options.rank, "the rank whose part is shown")->check(not_negative());
  verb->add_option("--event", arguments->event,
                   "one event of a step, as 3.0/backward/1/down/dx (docs/events.md); with "
                   "--sample, its rows of that sample");
  verb->add_option("--tensor", options.tensor, "the values of one dataset, as advantages");
  verb->add_flag("--text", options.text,
                 "of a sample, prompt and response as text; on a terminal each token in a colour "
                 "by its log-probability");
  verb->add_option("--tokenizer,--model", arguments->tokenizer,
                   "of a sample: folder of the tokenizer.json that tells what its tokens say "
                   "(default: the recorded model's)");
  verb->add_flag("--json", options.json, "JSON, one object a line");
  verb->footer(
      "Nothing that a file carries is run. With --json, a file of torch.save is printed whole.\n\n"
      "Examples:\n  rlreplay show dump/ --samples --sort reward\n"
      "  rlreplay show dump/ --sample 17 --tokenizer Qwen2.5-0.5B\n"
      "  rlreplay show dump/ --event 2.0/backward/0/down/dx --sample 17\n"
      "  rlreplay show train_data/0.pt --json");
  verb->callback([=, &chosen] { chosen = [=] { return show(*arguments); }; });
}

}  // namespace rlreplay::replay
