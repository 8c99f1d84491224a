#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "src/base/error.h"
#include "src/base/report_error.h"
#include "src/bisect/verbs/search_verbs.h"

namespace {

using namespace rlreplay::bisect;

/// git takes an exit code below 128 for a verdict: errors are told from it.
int exit_code_for_git(int code) {
  if (code == kGoodExit || code == kBadExit || code == kCannotJudgeExit) return code;
  if (code >= kErrorExit) return code;
  return code == rlreplay::exit_code(rlreplay::ErrorCode::kUsage) ? kUsageExit : kErrorExit;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 2 && std::string_view(argv[1]) == kGuardVerb) return run_guard(argc - 2, argv + 2);
  const bool json = std::any_of(
      argv, argv + argc, [](const char* text) { return std::string_view(text) == "--json"; });
  return exit_code_for_git(rlreplay::run_reporting_errors("rlbisect", json, [&] {
    const auto word = [&](int i) { return i < argc ? std::string_view(argv[i]) : ""; };
    const bool has_help = word(2) == "verdict" || word(2) == "op";
    if (word(1) == "help" && has_help) std::swap(argv[1], argv[2]);
    if (word(1) == "op") return run_op(argc - 1, argv + 1);
    if (std::ranges::find(kStoredVerbs, word(1)) != std::end(kStoredVerbs)) {
      return run_stored(argc - 1, argv + 1);
    }
    return word(1) == "verdict" ? run_verdict(argc - 1, argv + 1) : run_search(argc, argv);
  }));
}
