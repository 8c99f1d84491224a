#include <CLI/App.hpp>
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/build_info.h"
#include "src/base/error.h"
#include "src/base/report_error.h"
#include "src/replay/verbs/command_line.h"
#include "src/replay/verbs/end_on_signal.h"
#include "src/replay/verbs/verb.h"

namespace {

constexpr const char* kFooter =
    "`rlreplay help VERB` explains a verb and shows an example; `rlreplay VERB -h` is shorter.\n"
    "Exit codes: 0 done or identical, 1 a difference or finding, 2 usage, 3 corrupt or incomplete\n"
    "input, 4 unsupported, 5 environment (memory, disk, device), 70 internal error,\n"
    "130 interrupted.";

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
    // A rank that --layout started has no verb: its word is not read as one.
    if (argc == 2 && argv[1] == replay::kRankWord) {
      if (const auto served = replay::serve_launched_rank(argv[1])) return *served;
    }
    CLI::App program(
        "Deterministic replay and bisection of reinforcement learning runs of language models",
        "rlreplay");
    program.set_version_flag("-V,--version", "rlreplay " + program_version_line(),
                             "the program's version and build");
    replay::set_up_help(program);
    program.require_subcommand(1);
    program.footer(kFooter);
    replay::VerbRun chosen;
    replay::add_verbs(program, chosen, behind_dashes);
    const auto ended = replay::read_words(program, {argv + 1, argv + argc});
    if (ended) return *ended;
    // A launcher starts all ranks by the same words, so what they ask for was read; rank 0 does it.
    if (const auto served = replay::serve_launched_rank(argv[1])) return *served;
    if (std::string_view(argv[1]) == "capture") return chosen();  // which answers signals itself
    const replay::EndOnSignal on_signal(json);
    return chosen();
  });
}
