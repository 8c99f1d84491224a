#include <filesystem>
#include <iostream>

#include "src/base/error.h"
#include "src/base/json_line.h"
#include "src/base/json_value.h"
#include "src/base/shell.h"
#include "src/base/words.h"
#include "src/replay/gate/claim.h"
#include "src/replay/verbs/golden_parts.h"
#include "src/replay/verbs/golden_report.h"

namespace rlreplay::replay {
namespace {

constexpr size_t kShownClaim = 5, kShortHash = 12;

std::string short_hash(const std::string& hash) { return hash.substr(0, kShortHash); }

bool passes_claim(const gate::ClaimVerdict& j) {
  return j.outcome == gate::ClaimOutcome::kUnclaimed || j.outcome == gate::ClaimOutcome::kKept;
}

struct JudgedClaim : gate::ClaimVerdict {
  std::string begins = {};  // where the difference does; empty without two dumps
};

JudgedClaim judge_range(const gate::ClaimedRange& range, const GoldenArguments& arguments,
                        const std::string& folder) {
  if (range.claims.empty()) return {};
  const auto run = [&](const std::string& commit) {
    return gate::run_commit({}, {commit, arguments.build, arguments.run, limit_of(arguments)},
                            folder);
  };
  const gate::CommitRun base = run(range.base);
  const gate::CommitRun head = base.values ? run(range.head) : gate::CommitRun{};
  JudgedClaim out{gate::judge_claim(base, head)};
  if (!out.differences.empty()) out.begins = begins_at(base.dump.path, head.dump.path);
  return out;
}

/// How the commit that broke a claim is found.
std::string search_line(const gate::ClaimedRange& range, const GoldenArguments& arguments) {
  if (range.commits < 2) return "";
  const std::string build =
      arguments.build.empty() ? "" : " --build " + shell_word(arguments.build);
  return "  which commit: rlbisect " + short_hash(range.base) + ".." + short_hash(range.head) +
         " --run " + shell_word(arguments.run) + build + '\n';
}

std::string claim_text(const gate::ClaimedRange& range, const JudgedClaim& j,
                       const GoldenArguments& arguments) {
  const std::string said = std::string(gate::kClaim) + " is in ";
  const std::string between = " of " + counted(range.commits, "commit") + " of " +
                              short_hash(range.base) + ".." + short_hash(range.head);
  if (range.claims.empty()) return "not claimed: " + said + "none" + between + '\n';
  std::string out = said + std::to_string(range.claims.size()) + between + ":\n";
  for (const gate::ClaimingCommit& c : range.claims) {
    out += "  " + short_hash(c.hash) + " " + c.title + '\n';
  }
  out += std::string(to_string(j.outcome)) + ": ";
  if (j.outcome == gate::ClaimOutcome::kNotJudged) return out + j.reason + '\n';
  const std::string values = std::to_string(j.values);
  if (j.differences.empty()) return out + values + " values, every bit\n";
  return out + std::to_string(j.differences.size()) + " of " + values +
         " values differ, recorded: at " + short_hash(range.base) + ", now: at " +
         short_hash(range.head) + '\n' +
         differences_text(j.differences, arguments.all ? SIZE_MAX : kShownClaim) +
         begins_line(j.begins) + search_line(range, arguments);
}

std::string claim_json(const gate::ClaimedRange& range, const JudgedClaim& j) {
  const auto commit = [](const gate::ClaimingCommit& c) {
    return JsonLine().text("commit", c.hash).text("title", c.title).str();
  };
  JsonLine out;
  out.text("schema", "rlreplay.golden.claim/1")
      .text("outcome", to_string(j.outcome))
      .boolean("passes", passes_claim(j))
      .text("reason", j.reason)
      .text("base", range.base)
      .text("head", range.head)
      .integer("commits", static_cast<int64_t>(range.commits))
      .json("claims", json_list(range.claims, commit))
      .integer("values", static_cast<int64_t>(j.values))
      .json("differences", json_list(j.differences, difference_json));
  if (!j.begins.empty()) out.text("begins", j.begins);
  return out.str();
}

}  // namespace

int golden_claim(const GoldenArguments& arguments) {
  if (!arguments.paths.empty()) {
    throw Error(ErrorCode::kUsage, "--claim compares two commits, and no golden file: leave " +
                                       shell_word(arguments.file()) + " out");
  }
  if (arguments.run.empty()) {
    throw Error(ErrorCode::kUsage, "--claim runs both commits: say how, --run CMD");
  }
  check_asked({.about = {{"run", arguments.run}}}, arguments, "--claim");
  const std::string folder = std::filesystem::current_path().string();
  const gate::ClaimedRange range = gate::find_claims(folder, arguments.claim);
  const JudgedClaim j = judge_range(range, arguments, folder);
  std::cout << (arguments.json ? claim_json(range, j) + '\n' : claim_text(range, j, arguments));
  if (j.outcome == gate::ClaimOutcome::kNotJudged) return exit_code(ErrorCode::kIncomplete);
  return passes_claim(j) ? 0 : 1;
}

}  // namespace rlreplay::replay
