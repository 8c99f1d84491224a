#include <CLI/App.hpp>
#include <algorithm>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/build_info.h"
#include "src/base/error.h"
#include "src/base/report_error.h"
#include "src/replay/verbs/verb.h"
#include "src/replay/verbs/wrapped_help.h"

namespace {

constexpr const char* kFooter =
    "`rlreplay VERB --help` explains a verb and shows an example.\n"
    "Exit codes: 0 done or identical, 1 a difference or finding, 2 usage, 3 corrupt or incomplete\n"
    "input, 4 unsupported, 5 environment (memory, disk, device), 70 internal error.";

/// CLI11 takes a word that it does not know for an argument without a verb.
void check_verb(const CLI::App& program, const std::string& word) {
  if (word.empty()) {
    throw rlreplay::Error(rlreplay::ErrorCode::kUsage, "give a verb; rlreplay --help lists them");
  }
  if (word[0] == '-') return;
  for (const CLI::App* verb : program.get_subcommands({})) {
    if (verb->check_name(word)) return;
  }
  throw rlreplay::Error(rlreplay::ErrorCode::kUsage,
                        "there is no verb " + word + "; rlreplay --help lists them");
}

/// CLI11's words for a missing value name neither option nor value where the option has no type.
std::string sentence(const CLI::ParseError& error) {
  const std::string text = error.what();
  const size_t missing = text.find(": 1 required ");
  return missing == text.npos ? text : text.substr(0, missing) + " needs a value";
}

/// Takes off what `capture` hands to another program: the words behind `--`.
std::vector<std::string> split_behind_dashes(int& argc, char** argv) {
  if (argc < 2 || std::string_view(argv[1]) != "capture") return {};
  char** const end = argv + argc;
  char** const dashes =
      std::find_if(argv, end, [](const char* word) { return std::string_view(word) == "--"; });
  if (dashes == end) return {};
  argc = static_cast<int>(dashes - argv);
  return {dashes + 1, end};
}

}  // namespace

int main(int argc, char** argv) {
  using namespace rlreplay;
  const std::vector<std::string> behind_dashes = split_behind_dashes(argc, argv);
  const bool json = std::any_of(
      argv, argv + argc, [](const char* text) { return std::string_view(text) == "--json"; });
  return run_reporting_errors("rlreplay", json, [&] {
    CLI::App program(
        "Deterministic replay and bisection of reinforcement learning runs of language models",
        "rlreplay");
    program.set_version_flag("--version", "rlreplay " + program_version_line());
    program.formatter(std::make_shared<replay::WrappedHelp>());
    program.require_subcommand(1);
    program.footer(kFooter);
    replay::Command chosen;
    replay::add_verbs(program, chosen, behind_dashes);
    check_verb(program, argc > 1 ? argv[1] : "");
    try {
      program.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      if (error.get_exit_code() == 0) return program.exit(error);  // help or version
      const std::string verb = program.get_subcommands().empty() ? "" : std::string(argv[1]) + " ";
      throw Error(ErrorCode::kUsage, sentence(error) + "; see rlreplay " + verb + "--help");
    }
    return chosen();
  });
}
