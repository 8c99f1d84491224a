#include <filesystem>

#include "src/base/error.h"
#include "src/replay/compare/dumps_difference_report.h"
#include "src/replay/exchange/any_dump.h"
#include "src/replay/gate/commit_run.h"
#include "src/replay/gate/recorded_commit.h"
#include "src/replay/record/content_root.h"
#include "src/replay/verbs/engine_half.h"
#include "src/replay/verbs/golden_parts.h"

namespace rlreplay::replay {
namespace {

/// What the recorded commit gives here.
gate::CommitRun run_recorded_commit(const gate::Golden& golden, const std::string& build,
                                    const GoldenArguments& arguments, const std::string& path) {
  if (std::string why = problem_of_commit(golden); !why.empty()) return {{}, std::move(why)};
  const gate::CommitRecipe recipe{gate::about(golden, "commit"), build,
                                  command_of(golden, arguments, path), limit_of(arguments)};
  return gate::run_commit(golden.tolerances, recipe,
                          std::filesystem::absolute(path).parent_path().string());
}

/// After the dump that a golden file names; nothing where it does not lie here.
std::string begins_after(const gate::Golden& golden, const std::string& now) {
  const std::string named = gate::about(golden, "dump");
  std::error_code absent;
  if (named.empty() || !std::filesystem::exists(named, absent)) return "";
  try {
    check_dump(named, golden.values);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInterrupted) throw;
    return "not known: " + named + ": " + error.what();
  }
  return begins_at(named, now);
}

}  // namespace

std::string build_of(const gate::Golden& golden, const GoldenArguments& arguments) {
  if (!arguments.build.empty()) return arguments.build;
  return arguments.run_recorded ? gate::about(golden, "build") : "";
}

std::string problem_of_commit(const gate::Golden& golden) {
  const std::string commit = gate::about(golden, "commit");
  if (gate::about(golden, "run").empty()) return "its run is one of rlreplay itself";
  if (commit.empty()) return "the file names no commit";
  if (commit.ends_with("-changed")) return "it was recorded from a checkout with changes";
  return "";
}

std::string begins_at(const std::string& recorded, const std::string& now) {
  if (recorded.empty() || now.empty()) return "";
  try {
    const AnyDump a(recorded), b(now);
    return first_difference_line(compare_dumps(a.run(), b.run(), {}, element_finder()));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInterrupted) throw;
    return std::string("not known: ") + error.what();
  }
}

std::string root_of_dump(const std::string& path) {
  return with_dump(path, [](const AnyDump& dump) { return content_root(dump.reader()).hex(); });
}

void check_dump(const std::string& path, const GoldenEntries& values) {
  const auto content = values.find("content");
  const std::string root = root_of_dump(path);
  if (content == values.end()) {
    throw Error(ErrorCode::kUsage, "the run leaves no dump, so that this is none of it", path);
  }
  if (content->second == root) return;
  throw Error(ErrorCode::kUsage,
              "it is the dump of another run: its content root is " + root + ", and that of this " +
                  "run's " + content->second,
              path);
}

FoundCause find_cause(const gate::Golden& golden, const GoldenArguments& arguments,
                      const std::string& path, const gate::Observation& now) {
  FoundCause out;
  gate::CommitRun old;
  if (const std::string build = build_of(golden, arguments); !build.empty()) {
    old = run_recorded_commit(golden, build, arguments, path);
    out.attribution = old.values
                          ? gate::attribute(golden, now.values, *old.values)
                          : gate::Attribution{gate::AttributedTo::kNotAttributed, old.problem};
    const bool is_command = !gate::about(golden, "run").empty();
    if (is_command && out.attribution->cause != gate::AttributedTo::kEnvironment) {
      const auto checkout =
          gate::find_checkout(path, command_of(golden, arguments, path) + '\n' + build);
      const std::string apart = checkout ? gate::uncommitted(*checkout) : "";
      if (!apart.empty()) out.attribution->reason += "; here " + apart;
    }
  }
  if (now.dump.path.empty()) return out;
  out.begins = begins_after(golden, now.dump.path);
  if (out.begins.empty()) out.begins = begins_at(old.dump.path, now.dump.path);
  return out;
}

}  // namespace rlreplay::replay
