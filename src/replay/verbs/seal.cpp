#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <filesystem>
#include <iostream>

#include "format/dump_files.h"
#include "format/dump_reader.h"
#include "format/dump_writer.h"
#include "format/folder.h"
#include "src/base/error.h"
#include "src/base/json_line.h"
#include "src/base/json_value.h"
#include "src/base/printable.h"
#include "src/replay/exchange/any_dump.h"
#include "src/replay/record/incomplete_record.h"
#include "src/replay/record/partial_steps.h"
#include "src/replay/verbs/verb.h"

namespace rlreplay::replay {
namespace {

struct SealArguments {
  std::string path;
  bool recovered = false;
  bool json = false;
};

/// Sees that the folder holds no file that would lie in the sealed dump without a record.
void check_no_stranger(const std::string& path) {
  for (const std::string& file : format::Folder::open(path).list()) {
    if (format::is_dump_file(file) || file.ends_with(format::kTemporarySuffix)) continue;
    throw Error(
        ErrorCode::kUsage,
        "the folder holds " + printable(file) +
            ", which is no file of a dump, and of which no record would tell: move it away, "
            "then close the dump",
        path);
  }
}

int seal(const SealArguments& arguments) {
  check_imported(arguments.path);
  if (!arguments.recovered) {
    throw Error(ErrorCode::kUsage,
                "a dump is sealed by its writer, which may still go on (capture --resume); "
                "--recovered closes it for good as it is",
                arguments.path);
  }
  if (std::filesystem::exists(arguments.path + "/manifest.json")) {
    throw Error(ErrorCode::kUsage, "the dump is sealed already: nothing to do", arguments.path);
  }
  check_no_stranger(arguments.path);
  format::WriterOptions settings;
  settings.check = true;
  format::DumpWriter dump = format::DumpWriter::resume(arguments.path, settings);
  const Hash root = dump.seal({.complete = false, .unstable = {}, .derived_from = {}});
  const auto sealed = format::DumpReader::open(arguments.path);
  if (arguments.json) {
    std::cout << JsonLine()
                     .text("schema", "rlreplay.seal/1")
                     .boolean("recovered", true)
                     .integer("units", static_cast<int64_t>(dump.units().size()))
                     .text("root", root.hex())
                     .json("unended", json_list(unended_writers(sealed)))
                     .json("left_out", json_list(partial_steps(sealed),
                                                 [](const PartialStep& of) {
                                                   return JsonLine()
                                                       .text("step", of.step.name())
                                                       .text("missing_ranks", of.missing)
                                                       .str();
                                                 }))
                     .str()
              << '\n';
  } else {
    if (const std::string died = unended_text(sealed); !died.empty()) {
      std::cout << died << " died: what it had not acknowledged is lost\n";
    }
    if (const std::string left = left_out_text(sealed); !left.empty()) std::cout << left << '\n';
    std::cout << arguments.path << ": closed with the " << dump.units().size()
              << " units that its journal"
              << (sealed.journals().size() > 1 ? "s acknowledge" : " acknowledges") << "\nroot "
              << root.hex() << "\nwhat is in it: rlreplay show " << arguments.path << '\n';
  }
  return 0;
}

}  // namespace

void add_seal(CLI::App& program, VerbRun& chosen) {
  auto arguments = std::make_shared<SealArguments>();
  CLI::App* verb = program.add_subcommand("seal", "Close a dump whose writer died");
  verb->add_option("path", arguments->path, "an unfinished dump that nobody is writing to")
      ->required();
  verb->add_flag("--recovered", arguments->recovered,
                 "close it with the units that its journal acknowledges");
  verb->add_flag("--json", arguments->json, "print one JSON object");
  verb->footer(
      "Every acknowledged unit is checked; what was not acknowledged is removed. Afterwards the "
      "dump\n"
      "is whole, and verify says that it is recovered, or INCOMPLETE where ranks lack a step;\n"
      "nothing can be added to it any more.\n\n"
      "Example:\n  rlreplay seal --recovered dump/");
  verb->callback([=, &chosen] { chosen = [=] { return seal(*arguments); }; });
}

}  // namespace rlreplay::replay
