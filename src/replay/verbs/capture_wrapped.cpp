#include "src/replay/verbs/capture_wrapped.h"

#include <filesystem>
#include <iostream>

#include "format/dump_place.h"
#include "src/base/error.h"
#include "src/base/foreground.h"
#include "src/base/shell.h"
#include "src/base/words.h"
#include "src/replay/exchange/import.h"
#include "src/replay/exchange/source_files.h"
#include "src/replay/launch/launch.h"
#include "src/replay/record/content_root.h"
#include "src/replay/verbs/end_on_signal.h"

namespace rlreplay::replay {
namespace {

namespace fs = std::filesystem;

size_t count_dumps(const std::vector<std::string>& folders) {
  size_t out = 0;
  for (const std::string& folder : folders) {
    if (!fs::exists(folder)) continue;
    for (const auto& family : find_sources({folder}, ".pt")) out += family.size();
  }
  return out;
}

std::string list(const std::vector<std::string>& folders) {
  std::string out;
  for (const std::string& folder : folders) out += (out.empty() ? "" : " ") + folder;
  return out;
}

std::string import_command(const std::vector<std::string>& folders, const std::string& output) {
  std::string out = "rlreplay import";
  for (const std::string& folder : folders) out += " " + shell_word(folder);
  return out + " -o " + shell_word(output);
}

/// Sees, before anything runs, that dumps have a place: a long run must not fail at its end for
/// what could be seen at its start.
void check_places(const WrapArguments& arguments, const Launch& launch) {
  format::DumpPlace(arguments.output, arguments.force, format::DumpPlace::Writer::kOneGo);
  if (count_dumps(launch.folders) == 0) return;
  throw Error(ErrorCode::kUsage,
              "dumps of an earlier run lie where this one's would: move them away, they are not "
              "overwritten",
              list(launch.folders));
}

void check_end(const WrapArguments& arguments, const Launch& launch, const ForegroundEnd& end) {
  const size_t files = count_dumps(launch.folders);
  const std::string left = files == 0 ? "it wrote no dump"
                                      : "nothing is imported; the " + std::to_string(files) +
                                            " dump files that it wrote are left: " +
                                            import_command(launch.folders, arguments.output);
  if (end.interrupted) {
    throw Error(ErrorCode::kInterrupted, "interrupted, and so was the command; " + left,
                list(launch.folders));
  }
  if (!end.well()) {
    throw Error(ErrorCode::kEnvironment, "the command ended with " + end.describe() + "; " + left,
                arguments.command.front());
  }
  if (files > 0) return;
  throw Error(ErrorCode::kIncomplete,
              "the command ended well, but wrote no dump: a script must hand the flags that are "
              "added to its words on to the trainer (\"$@\")",
              list(launch.folders));
}

void print(const WrapArguments& arguments, const Launch& launch, const ImportReport& report) {
  if (arguments.json) {
    std::cout << import_line("rlreplay.wrap/1", arguments.output, report)
                     .integer("findings", static_cast<int64_t>(report.findings.size()))
                     .json("launch", launch_json(launch))
                     .str()
              << '\n';
    return;
  }
  std::cout << findings_text(report);
  std::cout << "recorded in " << arguments.output << ": " << counted(report.rollouts, "rollout")
            << ", " << counted(report.samples, "sample") << ", " << counted(report.steps, "step")
            << ", root " << report.root.hex() << "\ncontent "
            << content_root(arguments.output).hex() << "\nthe framework's own files are left in "
            << list(launch.folders) << "\nlook into it: rlreplay show "
            << shell_word(arguments.output) << '\n';
}

}  // namespace

int capture_wrapped(const WrapArguments& arguments) {
  fs::path details = fs::path(arguments.output).lexically_normal();
  if (!details.has_filename()) details = details.parent_path();
  const Launch launch =
      plan_launch(arguments.framework, arguments.command, details.string() + ".details");
  if (!arguments.dry_run) check_places(arguments, launch);
  const std::string recorded = launch_json(launch);  // before the command: it may not be text
  std::cerr << describe(launch) << "wrap: the package flash_attn_3 must not be installed: it adds "
            << "in any order\n";
  if (arguments.dry_run) {
    std::cout << command_line(launch) << '\n';
    return 0;
  }
  check_end(arguments, launch, run_in_foreground(launch.command));
  const EndOnSignal on_signal(arguments.json);
  ImportOptions options;
  options.paths = launch.folders;
  options.output = arguments.output;
  options.force = arguments.force;
  options.launch = recorded;
  print(arguments, launch, import_dump(options));
  return 0;
}

}  // namespace rlreplay::replay
