#include "src/replay/exchange/import.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <iostream>
#include <map>

#include "format/foreign/framework.h"
#include "src/base/json_line.h"
#include "src/base/json_value.h"
#include "src/base/shell.h"
#include "src/base/words.h"
#include "src/replay/record/content_root.h"
#include "src/replay/verbs/value_checks.h"
#include "src/replay/verbs/verb.h"

namespace rlreplay::replay {
namespace {

std::string files_json(const ImportReport& report) {
  return json_list(report.files, [](const ImportedFile& file) {
    return JsonLine().text("path", file.path).text("layout", file.layout).str();
  });
}

std::string findings_json(const ImportReport& report) {
  return json_list(report.findings, [](const foreign::Problem& finding) {
    return JsonLine()
        .text("code", finding.code)
        .text("message", finding.message)
        .text("where", finding.where)
        .str();
  });
}

void print_json(const ImportOptions& options, const ImportReport& report) {
  std::cout << import_line("rlreplay.import/1", options.output, report)
                   .integer("tokens", static_cast<int64_t>(report.tokens))
                   .json("files", files_json(report))
                   .json("findings", findings_json(report))
                   .str()
            << '\n';
}

void print_text(const ImportOptions& options, const ImportReport& report) {
  std::map<std::string, int> layouts;
  for (const ImportedFile& file : report.files) ++layouts[file.layout];
  for (const auto& [layout, count] : layouts) {
    std::cout << count << (count == 1 ? " file: " : " files: ") << layout << '\n';
  }
  std::cout << findings_text(report);
  std::cout << options.output << ": " << counted(report.rollouts, "rollout") << ", "
            << counted(report.samples, "sample") << ", " << counted(report.tokens, "token") << ", "
            << counted(report.steps, "step") << "\nroot    " << report.root.hex() << "\ncontent "
            << content_root(options.output).hex() << "\nlook into it: rlreplay show "
            << shell_word(options.output) << '\n';
}

}  // namespace

void add_import(CLI::App& program, VerbRun& chosen) {
  struct Arguments {
    ImportOptions options;
    bool json = false;
  };
  auto arguments = std::make_shared<Arguments>();
  ImportOptions& options = arguments->options;
  CLI::App* verb = program.add_subcommand(
      "import", "Debug dumps of slime, Miles and Relax in, without running what they carry");
  verb->add_option("paths", options.paths, "files, or folders as --dump-details leaves them")
      ->required();
  verb->add_option("-o,--output", options.output, "the dump to be made")->required();
  verb->add_option("--format", options.format, "who wrote it; judged by content where absent")
      ->check(one_of(foreign::kFrameworks, {"jsonl"}));
  verb->add_option("--reward-key", options.reward_key,
                   "the number to take of a reward that is a dict");
  verb->add_flag("--force", options.force, "replace an older dump, once the new one is whole");
  verb->add_flag("--json", arguments->json, "print one JSON object");
  verb->footer(
      "Shards of data, tensor, pipeline and context parallelism are put together; a difference\n"
      "between copies is a finding. What has no place in a dump is kept beside it, so that\n"
      "`rlreplay export` writes files of the same content again.\n"
      "\n"
      "A JSONL file has an object a line: a sample of a rollout\n"
      "  {\"schema\": \"rlreplay.sample/1\", \"rollout_id\": 0, \"sample_id\": 7,\n"
      "   \"tokens\": [5, 6, 7], \"prompt_length\": 1, \"log_probs\": [-0.5, -0.1],\n"
      "   \"reward\": 1}\n"
      "or of a training step (docs/jsonl.md has all keys)\n"
      "  {\"schema\": \"rlreplay.train/1\", \"rollout_id\": 0, \"step_id\": 0, \"rank\": 0,\n"
      "   \"sample_id\": 7, \"length\": 3, \"prompt_length\": 1, \"advantages\": [1, 1]}\n\n"
      "Example:\n  rlreplay import /path/to/dump-details -o dump/");
  verb->callback([=, &chosen] {
    chosen = [=] {
      const ImportReport report = import_dump(arguments->options);
      if (arguments->json) {
        print_json(arguments->options, report);
      } else {
        print_text(arguments->options, report);
      }
      return 0;
    };
  });
}

}  // namespace rlreplay::replay
