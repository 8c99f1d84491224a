#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "format/dump_place.h"
#include "src/base/atomic_file.h"
#include "src/base/error.h"
#include "src/base/json_line.h"
#include "src/base/shell.h"
#include "src/replay/options/config_file.h"
#include "src/replay/rerun/golden_run.h"
#include "src/replay/verbs/run_flags.h"
#include "src/replay/verbs/verb.h"
#include "src/task/find_tokenizer.h"

namespace rlreplay::replay {
namespace {

constexpr const char* kMadeBy =
    "rlreplay golden record\n"
    "The lines \"option\" say of which run; rlreplay golden check FILE runs it again.";
constexpr const char* kGuide =
    "A golden file keeps the bits of a short run as text that version control merges: a line a\n"
    "value, and the options of the run. Check it in continuous integration; record it anew, with\n"
    "the reason, where bits are meant to change. A --reward-command of the file is not run:\n"
    "it has to be given again.\n\n";
constexpr const char* kExamples =
    "Examples:\n  rlreplay golden record run.txt --model demo --steps 3\n"
    "  rlreplay golden check run.txt\n"
    "  rlreplay golden record run.txt --force --reason \"new attention kernel\"";

struct GoldenArguments {
  RunFlags flags;
  std::string file;
  std::string reason;
  bool force = false;
  bool json = false;
};

/// The flags on what a file that is to be replaced says, or on the model's own defaults.
RunOptions record_options(const GoldenArguments& arguments) {
  const bool there = std::filesystem::exists(arguments.file);
  if (there && !arguments.force) {
    throw Error(ErrorCode::kUsage,
                "the file is there already: check it, or replace it with --force", arguments.file);
  }
  if (!there || !arguments.flags.resolve({}).model.empty()) {
    return arguments.flags.resolve_for_model();
  }
  const RunOptions recorded = options_of(read_golden(arguments.file).entries);
  arguments.flags.check_given(recorded, arguments.file);
  return arguments.flags.resolve(recorded);
}

int record(const GoldenArguments& arguments) {
  const std::string path = output_file(arguments.file);  // refused before the run, not after
  format::check_outside_dumps(path);
  const RunOptions options = record_options(arguments);
  check_golden_options(options);
  if (arguments.flags.print_config()) {
    std::cout << options_yaml(options);
    return 0;
  }
  Machine machine(options);
  GoldenFile file{kMadeBy, golden_run(machine, options)};
  check_golden_run(file.entries);
  const auto differences = compare_golden(file.entries, golden_run(machine, options));
  if (!differences.empty()) {
    std::cerr << to_string(differences, 5);
    throw Error(ErrorCode::kEnvironment,
                "two runs with these options do not give the same bits: nothing was recorded");
  }
  if (!arguments.reason.empty()) file.made_by += "\nReason: " + arguments.reason;
  const size_t values = file.entries.size();
  file.entries.merge(golden_options(options));
  write_golden(path, file);
  std::cout << values << " values recorded in " << arguments.file
            << "\ncheck them: rlreplay golden check " << arguments.file << '\n';
  return 0;
}

std::string differences_json(std::span<const GoldenDifference> differences) {
  std::string out;
  const auto text = [](JsonLine& line, const char* key, const std::optional<std::string>& value) {
    value ? line.text(key, *value) : line.null(key);
  };
  for (const GoldenDifference& d : differences) {
    JsonLine line;
    line.text("key", d.key);
    text(line, "recorded", d.recorded);
    text(line, "now", d.now);
    // Readers of JSON hold integers in binary64.
    const bool exact = d.ulps && std::abs(*d.ulps) <= int64_t{1} << 53;
    exact ? line.integer("ulps", *d.ulps) : line.null("ulps");
    out += (out.empty() ? "" : ",") + line.str();
  }
  return "[" + out + "]";
}

/// How both runs become dumps, which say where they part: options that are overridden differ.
std::string commands_to_compare(const GoldenArguments& arguments) {
  const auto capture = [&](const std::string& name, const std::string& flags) {
    return "  rlreplay golden check " + shell_word(arguments.file) + flags + " --print-config >" +
           name + ".yaml\n  rlreplay capture --config " + name + ".yaml --record ops+values -o " +
           name + "/\n";
  };
  return "where it begins, with then/ by the program that recorded and now/ by this one:\n" +
         capture("then", "") + capture("now", arguments.flags.command_line()) +
         "  rlreplay diff then/ now/\n";
}

void print_check(const GoldenArguments& arguments, size_t values,
                 std::span<const GoldenDifference> differences) {
  if (arguments.json) {
    std::cout << JsonLine()
                     .text("schema", "rlreplay.golden/1")
                     .boolean("identical", differences.empty())
                     .integer("values", static_cast<int64_t>(values))
                     .json("differences", differences_json(differences))
                     .str()
              << '\n';
  } else if (differences.empty()) {
    std::cout << values << " values, identical\n";
  } else {
    std::cout << to_string(differences) << differences.size() << " of " << values
              << " values differ\n"
              << commands_to_compare(arguments) << "if that is meant: rlreplay golden record "
              << shell_word(arguments.file) << " --force" << arguments.flags.command_line()
              << " --reason \"...\"\n";
  }
}

/// A golden file names a checkpoint by where it lay when the file was made.
/// Errors: kIncomplete where no checkpoint lies there.
void check_model_there(const GoldenArguments& arguments, const std::string& model) {
  std::error_code absent;  // also where a recorded path can be none
  if (model == kDemo || arguments.flags.gives("model") ||
      std::filesystem::exists(model + "/config.json", absent)) {
    return;
  }
  throw Error(ErrorCode::kIncomplete,
              "the golden run's checkpoint is not at " + shell_word(model) +
                  ": where the same one lies elsewhere, say so: rlreplay golden check " +
                  shell_word(arguments.file) + " --model DIR",
              arguments.file);
}

int check_file(const GoldenArguments& arguments) {
  const GoldenEntries entries = read_golden(arguments.file).entries;
  const RunOptions recorded = options_of(entries);
  const RunOptions options = arguments.flags.resolve_record(recorded);
  check_golden_options(options);
  if (arguments.flags.print_config()) {
    std::cout << options_yaml(options);
    return 0;
  }
  arguments.flags.check_given(recorded, arguments.file);
  check_model_there(arguments, options.model);
  Machine machine(options);
  const GoldenEntries results = results_of(entries);
  const auto differences = compare_golden(results, golden_run(machine, options));
  const auto is_new = [](const GoldenDifference& d) { return !d.recorded; };
  const auto more = static_cast<size_t>(std::ranges::count_if(differences, is_new));
  print_check(arguments, results.size() + more, differences);
  return differences.empty() ? 0 : 1;
}

}  // namespace

void add_golden(CLI::App& program, VerbRun& chosen) {
  CLI::App* verb =
      program.add_subcommand("golden", "Keep the bits of a short run in a text file, and check it");
  verb->require_subcommand(1);
  verb->footer(std::string(kGuide) + kExamples);
  const auto add = [&](const char* name, const char* help) {
    auto arguments = std::make_shared<GoldenArguments>();
    CLI::App* part = verb->add_subcommand(name, help);
    part->add_option("file", arguments->file, "the golden file")->required();
    arguments->flags.add(*part, kRunSections, {"save"});
    part->footer(kExamples);
    return std::pair(part, arguments);
  };
  const auto [recording, to_record] = add("record", "Run twice and write what both gave");
  recording->add_option("--reason", to_record->reason, "why bits change, kept in the file");
  recording->add_flag("--force", to_record->force,
                      "replace the file; without --model its options are kept");
  recording->callback(
      [arguments = to_record, &chosen] { chosen = [arguments] { return record(*arguments); }; });
  const auto [checking, to_check] = add("check", "Run again: exit code 1 where a value differs");
  checking->add_flag("--json", to_check->json, "print one JSON object");
  checking->callback(
      [arguments = to_check, &chosen] { chosen = [arguments] { return check_file(*arguments); }; });
}

}  // namespace rlreplay::replay
