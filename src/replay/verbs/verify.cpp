#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <span>

#include "src/base/json_line.h"
#include "src/base/json_value.h"
#include "src/base/shell.h"
#include "src/base/words.h"
#include "src/replay/exchange/any_dump.h"
#include "src/replay/exchange/source_files.h"
#include "src/replay/inspect/verified.h"
#include "src/replay/verbs/verb.h"

namespace rlreplay::replay {
namespace {

constexpr int kFinding = 1;
constexpr size_t kMostShown = 12;

struct VerifyArguments {
  std::string path;
  bool deep = false;
  bool quick = false;
  bool all = false;
  bool json = false;
};

std::string problems_json(const std::vector<VerifyProblem>& problems) {
  return json_list(problems, [](const VerifyProblem& problem) {
    JsonLine line;
    line.text("code", problem.code).text("path", problem.path).text("dataset", problem.dataset);
    problem.offset ? line.integer("offset", static_cast<int64_t>(*problem.offset))
                   : line.null("offset");
    return line.text("message", problem.message).str();
  });
}

void print_problems(const std::vector<VerifyProblem>& problems, bool all) {
  const size_t shown = all ? problems.size() : std::min(problems.size(), kMostShown);
  for (const VerifyProblem& problem : std::span(problems).first(shown)) {
    std::cout << "problem " << problem.code << ": " << problem.message << " (" << problem.path
              << (problem.dataset.empty() ? "" : ": ") << problem.dataset
              << (problem.offset ? " at byte " + std::to_string(*problem.offset) : "") << ")\n";
  }
  if (shown < problems.size()) {
    std::cout << "and " << problems.size() - shown << " more problems: --all lists them\n";
  }
}

void print_not_checked(const std::vector<std::string>& sentences) {
  for (const std::string& what : sentences) {
    std::cout << wrapped("not checked: " + what, kLineWidth, 0) << '\n';
  }
}

void print_json(const VerifiedDump& dump) {
  const format::VerifyReport& report = dump.report;
  JsonLine out;
  out.text("schema", "rlreplay.verify/1")
      .text("verdict", dump.verdict())
      .boolean("complete", dump.complete)
      .boolean("sealed", report.sealed)
      .boolean("recovered", report.sealed && !report.complete)
      .text("version", report.version)
      .integer("whole_steps", static_cast<int64_t>(report.whole_steps))
      .integer("units", static_cast<int64_t>(report.units))
      .integer("whole_units", static_cast<int64_t>(report.whole_units));
  report.root == Hash{} ? out.null("root") : out.text("root", report.root.hex());
  dump.content ? out.text("content", dump.content->hex()) : out.null("content");
  std::cout << out.json("unended", json_list(dump.unended))
                   .json("problems", problems_json(dump.problems))
                   .json("not_checked", json_list(dump.not_checked))
                   .str()
            << '\n';
}

std::string_view advice(std::string_view verdict) {
  if (verdict == "UNFINISHED") {
    return "its writer is at work or died: rlreplay capture --resume goes on, rlreplay seal "
           "--recovered closes it";
  }
  if (verdict == "recovered") return "it was closed after its writer had died";
  return "";
}

void print_text(const VerifyArguments& arguments, const VerifiedDump& dump) {
  const format::VerifyReport& report = dump.report;
  std::cout << dump.verdict() << ": " << arguments.path << ", " << report.whole_units << " of "
            << report.units << " units whole, " << report.whole_steps << " whole "
            << (report.whole_steps == 1 ? "step" : "steps") << '\n';
  if (!dump.unended_text.empty()) {
    std::cout << wrapped("without an end: " + dump.unended_text +
                             "; what a dead writer did not acknowledge is lost",
                         kLineWidth, 0)
              << '\n';
  }
  if (const auto text = advice(dump.verdict()); !text.empty()) {
    std::cout << wrapped(std::string(text), kLineWidth, 0) << '\n';
  }
  print_problems(dump.problems, arguments.all);
  print_not_checked(dump.not_checked);
  if (!(report.root == Hash{})) std::cout << "root    " << report.root.hex() << '\n';
  if (dump.content) std::cout << "content " << dump.content->hex() << '\n';
  if (!arguments.deep && !arguments.quick && !dump.damaged) {
    std::cout
        << "content is as recorded; computed, and every value checked: rlreplay verify --deep "
        << arguments.path << '\n';
  }
}

/// What is worst decides: bytes that are not those that were written, then parts that are not
/// there, then what this version cannot read, then values that contradict each other.
int exit_code_of(const VerifiedDump& dump) {
  if (dump.damaged) return exit_code(code_of(dump.report.problems[0].rule));
  if (!dump.report.sealed || dump.lacks_parts()) return exit_code(ErrorCode::kCorrupt);
  if (dump.unreadable) return exit_code(*dump.unreadable);
  return dump.problems.empty() ? 0 : kFinding;
}

int check_one_dump(const VerifyArguments& arguments) {
  const VerifyDepth depth = arguments.deep    ? VerifyDepth::kDeep
                            : arguments.quick ? VerifyDepth::kQuick
                                              : VerifyDepth::kBytes;
  const VerifiedDump dump = verify_dump(arguments.path, depth);
  if (arguments.json) {
    print_json(dump);
  } else {
    print_text(arguments, dump);
  }
  return exit_code_of(dump);
}

void print_json(const VerifiedFiles& found) {
  std::cout << JsonLine()
                   .text("schema", "rlreplay.verify.files/1")
                   .boolean("complete", found.whole())
                   .integer("files", static_cast<int64_t>(found.files))
                   .integer("other_files", static_cast<int64_t>(found.others))
                   .null("whole_steps")
                   .null("root")
                   .json("problems", problems_json(found.problems))
                   .json("not_checked", json_list(found.not_checked))
                   .str()
            << '\n';
}

void print_text(const VerifyArguments& arguments, const VerifiedFiles& found) {
  print_problems(found.problems, arguments.all);
  print_not_checked(found.not_checked);
  std::cout << counted(found.files, "file") << ", " << counted(found.problems.size(), "problem")
            << '\n';
  if (found.others > 0 && found.others < found.files) {
    std::cout << counted(found.others, "file")
              << " of them hold no dump: an import keeps them as they are\n";
  }
  const bool more =
      arguments.path.ends_with(".jsonl") || std::filesystem::is_directory(arguments.path);
  if (!arguments.deep && found.problems.empty() && more) {
    std::cout << "every value as well: rlreplay verify --deep " << shell_word(arguments.path)
              << '\n';
  }
}

int exit_code_of(const VerifiedFiles& found) {
  if (!found.corrupt && found.unsupported()) return exit_code(ErrorCode::kUnsupported);
  if (!found.whole()) return exit_code(ErrorCode::kCorrupt);
  return found.problems.empty() ? 0 : kFinding;
}

int check_files_of_others(const VerifyArguments& arguments) {
  if (arguments.quick) {
    throw Error(ErrorCode::kUsage, "--quick is of a dump's records, which files of others lack",
                arguments.path);
  }
  const VerifiedFiles found = verify_files(arguments.path, arguments.deep);
  if (arguments.json) {
    print_json(found);
  } else {
    print_text(arguments, found);
  }
  return exit_code_of(found);
}

}  // namespace

void add_verify(CLI::App& program, VerbRun& chosen) {
  auto arguments = std::make_shared<VerifyArguments>();
  CLI::App* verb = program.add_subcommand("verify", "Whether a dump is whole and means something");
  verb->add_option("--from,dump", arguments->path,
                   "a dump, files of slime, Miles or Relax, or JSONL")
      ->required();
  verb->add_flag("--deep", arguments->deep, "decode every value and check what it means");
  verb->add_flag("--quick", arguments->quick,
                 "read records alone: units are there and have their sizes, bytes are not checked")
      ->excludes("--deep");
  verb->add_flag("--json", arguments->json, "print one JSON object");
  verb->add_flag("--all", arguments->all, "print every problem");
  verb->footer(
      "Every stored byte is checked against its hash, and that all ranks of every step and all\n"
      "rollouts and steps that the run's options announce are there. What the records say of\n"
      "their units, so the content that is printed, is the writer's word until --deep computes\n"
      "it. With --deep also every value:\n"
      "  what each unit and each group says, against its record\n"
      "  samples that rollout and training join, by id, length and token; ascending ids\n"
      "  token ids and lengths, against the model's vocabulary and positions\n"
      "  masks, numbers that are not finite, log-probabilities above 0, prompts' values\n"
      "  copies on several ranks that must agree\n"
      "  events: rows against samples, digests against rows, values, columns and\n"
      "    scalars, statistics against values\n"
      "  states, which must be what the step before left, with its count of steps\n"
      "  whether every verb can read it; what could not be checked is named\n"
      "Of files of others, those of all ranks, and of each rollout its samples and its steps.\n"
      "Exit code 3 where something is damaged or missing, 4 where a version, a form or a size\n"
      "is not supported, 1 where values or files contradict themselves. A dump whose writer\n"
      "died: rlreplay seal --recovered.\n\n"
      "Examples:\n  rlreplay verify --deep dump/\n  rlreplay verify dump_details/");
  verb->callback([=, &chosen] {
    chosen = [=] {
      // A folder with neither a dump's files nor .pt files is taken for a dump that lost its own.
      const bool foreign =
          std::filesystem::exists(arguments->path) &&
          (!std::filesystem::is_directory(arguments->path) ||
           (!is_native_dump(arguments->path) && !find_sources({arguments->path}, ".pt").empty()));
      return foreign ? check_files_of_others(*arguments) : check_one_dump(*arguments);
    };
  });
}

}  // namespace rlreplay::replay
