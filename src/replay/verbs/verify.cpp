#include "format/verify.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <filesystem>
#include <iostream>

#include "format/foreign/dump_check.h"
#include "format/foreign/torch_file.h"
#include "src/base/json_line.h"
#include "src/replay/exchange/any_dump.h"
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

int verify_dump(const VerifyArguments& arguments) {
  const format::VerifyReport report = format::verify(arguments.path, arguments.deep);
  std::vector<Found> problems;
  for (const format::Problem& problem : report.problems) {
    problems.push_back(
        {std::string(to_string(problem.rule)), problem.path, problem.dataset, problem.message});
  }
  if (arguments.json) {
    std::cout << JsonLine()
                     .text("schema", "rlreplay.verify/1")
                     .boolean("complete", report.complete)
                     .boolean("sealed", report.sealed)
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
              << (report.complete ? "complete"
                  : report.sealed ? "closed after its writer died"
                                  : "unfinished")
              << "\nroot " << report.root.hex() << '\n';
    if (!arguments.deep) {
      std::cout << "every value as well: rlreplay verify --deep " << arguments.path << '\n';
    }
  }
  return problems.empty() && report.complete ? 0 : kCorrupt;
}

/// Files of torch.save: their containers, and whether what they say of samples fits together.
int verify_files(const VerifyArguments& arguments) {
  std::vector<Found> problems;
  size_t files = 0;
  bool corrupt = false;
  for (const auto& family : find_sources({arguments.path}, "")) {
    for (const SourceFile& source : family) {
      if (source.path != arguments.path && !source.path.ends_with(".pt")) continue;
      ++files;
      try {
        const foreign::TorchFile file(source.path);
        std::vector<foreign::Problem> found = file.problems();
        for (const auto& problem : check_dump(file.tree(), file.root())) found.push_back(problem);
        for (const foreign::Problem& problem : found) {
          problems.push_back({problem.code, source.path, problem.where, problem.message});
        }
      } catch (const Error& error) {
        corrupt = true;
        problems.push_back(
            {std::string(to_string(error.code())), source.path, error.where(), error.what()});
      }
    }
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
      "Exit code 3 where a dump is damaged or its writer did not end it, 1 where foreign files\n"
      "contradict themselves.\n\nExample:\n  rlreplay verify --deep dump/");
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
