#include "format/upgrade.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <iostream>

#include "src/base/json_line.h"
#include "src/replay/exchange/any_dump.h"
#include "src/replay/verbs/verb.h"

namespace rlreplay::replay {
namespace {

struct UpgradeArguments {
  std::string path, output;
  int threads = 2;
  bool force = false;
  bool json = false;
};

int upgrade(const UpgradeArguments& arguments) {
  check_imported(arguments.path);
  const bool in_place = arguments.output.empty();
  if (in_place && arguments.force) {
    throw Error(ErrorCode::kUsage,
                "--force replaces the dump of -o: without -o the new one takes the old one's place "
                "anyway");
  }
  const format::UpgradeReport report =
      in_place
          ? format::upgrade_in_place(arguments.path, arguments.threads)
          : format::upgrade(arguments.path, arguments.output, arguments.threads, arguments.force);
  if (arguments.json) {
    std::cout << JsonLine()
                     .text("schema", "rlreplay.upgrade/1")
                     .text("from", report.from)
                     .text("to", report.to)
                     .integer("units", static_cast<int64_t>(report.units))
                     .text("root", report.root.hex())
                     .str()
              << '\n';
  } else {
    std::cout << (in_place ? arguments.path : arguments.output) << ": " << report.units
              << " units rewritten from version " << report.from << " to " << report.to << "\nroot "
              << report.root.hex() << ", as before\n";
  }
  return 0;
}

}  // namespace

void add_upgrade(CLI::App& program, VerbRun& chosen) {
  auto arguments = std::make_shared<UpgradeArguments>();
  CLI::App* verb =
      program.add_subcommand("upgrade", "Rewrite a dump of an older version of the format");
  verb->add_option("path", arguments->path, "a sealed dump")->required();
  verb->add_option("-o,--output", arguments->output,
                   "where the new dump goes; without it, it takes the old one's place");
  verb->add_flag("--force", arguments->force, "replace the dump of -o, once the new one is whole");
  verb->add_option("--threads", arguments->threads)->capture_default_str();
  verb->add_flag("--json", arguments->json, "print one JSON object");
  verb->footer(
      "Older dumps can be read as they are. Every value is checked before and after, and content\n"
      "hashes and root stay the same.\n\nExamples:\n  rlreplay upgrade dump/ -o new/\n"
      "  rlreplay upgrade dump/");
  verb->callback([=, &chosen] { chosen = [=] { return upgrade(*arguments); }; });
}

}  // namespace rlreplay::replay
