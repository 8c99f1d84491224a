#include "src/replay/exchange/export.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <iostream>

#include "format/foreign/framework.h"
#include "src/base/json_line.h"
#include "src/base/json_value.h"
#include "src/replay/exchange/any_dump.h"
#include "src/replay/record/incomplete_record.h"
#include "src/replay/verbs/value_checks.h"
#include "src/replay/verbs/verb.h"

namespace rlreplay::replay {
namespace {

struct ExportArguments {
  ExportOptions options;
  std::vector<uint64_t> samples, groups;
  bool json = false;
};

/// What is printed of a dump that is not whole.
struct DumpNotes {
  std::string incomplete, line;
};

DumpNotes notes_of(const std::string& dump) {
  const RecordedRun run(dump);
  return {incomplete_text(run), incomplete_line(run, dump)};
}

void print(const ExportOptions& options, const Exported& made, const DumpNotes& notes, bool json) {
  if (!json) std::cerr << notes.line;
  if (!json || options.output == "-") {
    for (const std::string& what : made.left_out) {
      std::cerr << "rlreplay: not written: " << what << '\n';
    }
  }
  if (options.output == "-") return;
  if (!json) {
    for (const std::string& file : made.files) std::cout << file << '\n';
    return;
  }
  std::cout << JsonLine()
                   .text("schema", "rlreplay.export/1")
                   .text("dump", options.dump)
                   .text("to", options.to)
                   .json("files", json_list(made.files))
                   .json("not_written", json_list(made.left_out))
                   .json("incomplete",
                         notes.incomplete.empty() ? "null" : json_quoted(notes.incomplete))
                   .str()
            << '\n';
}

}  // namespace

void add_export(CLI::App& program, VerbRun& chosen) {
  auto arguments = std::make_shared<ExportArguments>();
  ExportOptions& options = arguments->options;
  CLI::App* verb =
      program.add_subcommand("export", "A dump as files of slime or Miles, JSONL or safetensors");
  verb->add_option("--from,dump", options.dump, "the dump")->required();
  verb->add_option("--to", options.to, "the form")
      ->required()
      ->check(one_of(foreign::kFrameworks, {"jsonl", "safetensors"}));
  verb->add_option("-o,--output", options.output,
                   "a folder for frameworks (or one .pt file), else a file; - prints JSONL")
      ->required();
  verb->add_option("--steps", options.steps,
                   "steps, for jsonl and safetensors: A..B, each as 3.0 or counted from 0, B "
                   "included");
  verb->add_option("--samples", arguments->samples,
                   "samples by id; each brings its group and trajectory")
      ->delimiter(',')
      ->check(not_negative());
  verb->add_option("--groups", arguments->groups, "groups by id")
      ->delimiter(',')
      ->check(not_negative());
  verb->add_flag("--force", options.force, "replace what is there");
  verb->add_flag("--json", arguments->json, "print one JSON object");
  verb->footer(
      "What was imported is written with the content that it had, in files of other bytes:\n"
      "importing it again gives the same rollouts and training data. What was captured is written "
      "as slime's dumps, training data included; of a\n"
      "selection, each sample with its group and trajectory, losses are divided by what they\n"
      "were divided by.\n"
      "Of a selection of imported samples only rollouts are written for frameworks. One .pt file\n"
      "holds a rollout: the dump's only one, or that in which all of the selection lies. What of\n"
      "the dump is in no file is named, with the reason.\n\n"
      "Examples:\n  rlreplay export dump/ --to slime -o dump_details/\n"
      "  rlreplay export dump/ --to slime -o data.pt --groups 3\n"
      "  rlreplay export dump/ --to jsonl -o - --steps 3.0");
  verb->callback([=, &chosen] {
    chosen = [=] {
      ExportOptions& wanted = arguments->options;
      const auto set = [](const std::vector<uint64_t>& ids) {
        return std::set<uint64_t>(ids.begin(), ids.end());
      };
      if (!arguments->samples.empty()) wanted.selection.samples = set(arguments->samples);
      if (!arguments->groups.empty()) wanted.selection.groups = set(arguments->groups);
      check_imported(wanted.dump);
      const DumpNotes notes = notes_of(wanted.dump);  // first: it may refuse the dump
      print(wanted, export_dump(wanted), notes, arguments->json);
      return 0;
    };
  });
}

}  // namespace rlreplay::replay
