#include "format/verify.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <filesystem>
#include <iostream>

#include "format/foreign/dump_check.h"
#include "format/foreign/torch_file.h"
#include "src/base/json_line.h"
#include "src/replay/exchange/any_dump.h"
#include "src/replay/exchange/dump_audit.h"
#include "src/replay/exchange/family_check.h"
#include "src/replay/exchange/source_files.h"
#include "src/replay/verbs/verb.h"

namespace rlreplay::replay {
namespace {

constexpr int kFinding = 1;
constexpr int kCorrupt = 3;

struct VerifyArguments {
  std::string path;
  bool deep = false;
  bool json = false;
};

struct Found {
  std::string code, path, dataset, message;
};

std::string problems_json(const std::vector<Found>& problems) {
  std::string out;
  for (const Found& problem : problems) {
    out += (out.empty() ? "[" : ",") + JsonLine()
                                           .text("code", problem.code)
                                           .text("path", problem.path)
                                           .text("dataset", problem.dataset)
                                           .text("message", problem.message)
                                           .str();
  }
  return out.empty() ? "[]" : out + "]";
}

void print_problems(const std::vector<Found>& problems) {
  for (const Found& problem : problems) {
    std::cout << "problem " << problem.code << ": " << problem.message << " (" << problem.path
              << (problem.dataset.empty() ? "" : ": ") << problem.dataset << ")\n";
  }
}

void add_problems(const std::vector<foreign::Problem>& from, const std::string& path,
                  std::vector<Found>& to) {
  for (const foreign::Problem& problem : from) {
    to.push_back({problem.code, path, problem.where, problem.message});
  }
}

int verify_dump(const VerifyArguments& arguments) {
  const format::VerifyReport report = format::verify(arguments.path, arguments.deep);
  std::vector<Found> problems;
  for (const format::Problem& problem : report.problems) {
    problems.push_back(
        {std::string(to_string(problem.rule)), problem.path, problem.dataset, problem.message});
  }
  bool complete = report.complete;
  const bool sound = problems.empty();
  if (sound) {
    const auto dump = format::DumpReader::open(arguments.path);
    add_problems(audit_records(dump), arguments.path, problems);
    complete = complete && problems.empty();
    if (arguments.deep) add_problems(audit_values(dump), arguments.path, problems);
  }
  if (arguments.json) {
    std::cout << JsonLine()
                     .text("schema", "rlreplay.verify/1")
                     .boolean("complete", complete)
                     .boolean("sealed", report.sealed)
                     .boolean("recovered", report.sealed && !report.complete)
                     .text("version", report.version)
                     .integer("whole_steps", static_cast<int64_t>(report.whole_steps))
                     .integer("units", static_cast<int64_t>(report.units))
                     .integer("whole_units", static_cast<int64_t>(report.whole_units))
                     .text("root", report.root.hex())
                     .json("problems", problems_json(problems))
                     .str()
              << '\n';
  } else {
    print_problems(problems);
    std::cout << arguments.path << ": " << report.whole_units << " of " << report.units
              << " units whole, " << report.whole_steps << " whole steps, "
              << (complete          ? "complete"
                  : report.complete ? "parts are missing"
                  : report.sealed   ? "recovered: closed after its writer died"
                                    : "unfinished")
              << "\nroot " << report.root.hex() << '\n';
    if (!arguments.deep) {
      std::cout << "every value as well: rlreplay verify --deep " << arguments.path << '\n';
    }
  }
  if (!sound) return exit_code(code_of(report.problems[0].rule));
  if (!report.sealed || (report.complete && !complete)) return kCorrupt;
  return problems.empty() ? 0 : kFinding;
}

/// What one file says against itself; nothing where it cannot be read.
std::unique_ptr<foreign::TorchFile> check_file(const std::string& path,
                                               std::vector<Found>& problems) {
  try {
    auto file = std::make_unique<foreign::TorchFile>(path);
    add_problems(file->problems(), path, problems);
    add_problems(check_dump(file->tree(), file->root()), path, problems);
    return file;
  } catch (const Error& error) {
    problems.push_back({std::string(to_string(error.code())), path, error.where(), error.what()});
    return nullptr;
  }
}

bool is_train(const foreign::TorchFile& file) {
  const foreign::DumpKind kind = dump_kind(file.tree(), file.root());
  return kind == foreign::DumpKind::kTrainRank || kind == foreign::DumpKind::kTrainSamples;
}

/// The ranks of one rollout against each other. A file that is given alone stands for itself.
void check_ranks(const std::vector<std::unique_ptr<foreign::TorchFile>>& files,
                 const std::string& path, std::vector<Found>& problems) {
  std::vector<const foreign::TorchFile*> train;
  for (const auto& file : files) {
    if (is_train(*file)) train.push_back(file.get());
  }
  if (!train.empty()) add_problems(check_family(train), path, problems);
}

/// Files of torch.save: their containers, whether what they say of samples fits together, and the
/// ranks of a rollout.
int verify_files(const VerifyArguments& arguments) {
  std::vector<Found> problems;
  size_t files = 0;
  bool corrupt = false;
  const bool folder = std::filesystem::is_directory(arguments.path);
  for (const auto& family : find_sources({arguments.path}, "")) {
    std::vector<std::unique_ptr<foreign::TorchFile>> read;
    for (const SourceFile& source : family) {
      if (source.path != arguments.path && !source.path.ends_with(".pt")) continue;
      ++files;
      auto file = check_file(source.path, problems);
      corrupt = corrupt || file == nullptr;
      if (file != nullptr) read.push_back(std::move(file));
    }
    if (folder && problems.empty()) check_ranks(read, arguments.path, problems);
  }
  if (arguments.deep && folder && problems.empty()) {
    add_problems(audit_values(AnyDump(arguments.path).reader()), arguments.path, problems);
  }
  if (arguments.json) {
    std::cout << JsonLine()
                     .text("schema", "rlreplay.verify/1")
                     .boolean("complete", !corrupt && files > 0)
                     .integer("files", static_cast<int64_t>(files))
                     .null("whole_steps")
                     .null("root")
                     .json("problems", problems_json(problems))
                     .str()
              << '\n';
  } else {
    print_problems(problems);
    std::cout << files << (files == 1 ? " file, " : " files, ") << problems.size()
              << (problems.size() == 1 ? " problem\n" : " problems\n");
  }
  if (corrupt || files == 0) return kCorrupt;
  return problems.empty() ? 0 : kFinding;
}

}  // namespace

void add_verify(CLI::App& program, Command& chosen) {
  auto arguments = std::make_shared<VerifyArguments>();
  CLI::App* verb = program.add_subcommand("verify", "Whether a dump is whole and means something");
  verb->add_option("path", arguments->path, "a dump, or files of slime, Miles or Relax")
      ->required();
  verb->add_flag("--deep", arguments->deep, "decode every value and check what it means");
  verb->add_flag("--json", arguments->json, "print one JSON object");
  verb->footer(
      "Every stored byte is checked, and that all ranks of every step are there. With --deep also\n"
      "every value: samples that rollout and training join, masks, numbers that are not finite,\n"
      "copies on several ranks that must agree. Exit code 3 where a dump is damaged or "
      "incomplete,\n"
      "4 where its version is too new, 1 where its values, or foreign files, contradict\n"
      "themselves. A dump whose writer died: rlreplay seal --recovered.\n\n"
      "Examples:\n  rlreplay verify --deep dump/\n  rlreplay verify dump_details/");
  verb->callback([=, &chosen] {
    chosen = [=] {
      const bool foreign =
          std::filesystem::exists(arguments->path) &&
          (!std::filesystem::is_directory(arguments->path) ||
           (!is_native_dump(arguments->path) && !find_sources({arguments->path}, ".pt").empty()));
      return foreign ? verify_files(*arguments) : verify_dump(*arguments);
    };
  });
}

}  // namespace rlreplay::replay
