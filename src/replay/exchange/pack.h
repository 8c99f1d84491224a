#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/replay/exchange/strip.h"

/// A dump in one file, to be attached to a ticket: a zip archive of its folder (`dump/`) and of
/// `pack.json`, which says what it is.
namespace rlreplay::replay {

/// What is packed, without what, and into which file.
struct PackOptions {
  std::string dump, output;
  std::string steps;   // as --steps has them; empty: all
  bool texts = false;  // whether prompts, responses and labels are taken out
  bool replace = false;
  int threads = 2;
  DumpJudge judge;  // of what is packed; must be there
};

/// What `pack.json` says.
struct Pack {
  /// "0.0..2.0": those that were asked for, and before them those from the last recorded state on;
  /// empty: all.
  std::string steps;
  uint64_t units = 0;
  std::vector<std::string> without;  // what had to go, and why
  std::string root, content;         // of the dump in it
  std::string run = "{}";            // what the dump says of the run that made it, but its host
  std::string reproduce;             // the command, of a dump that was unpacked as dump/

  /// One line: rlreplay.pack/1.
  [[nodiscard]] std::string json() const;
};

/// Writes the archive, which has its name only once it was opened again and every byte and the
/// content root were found to be as packed.
/// Errors: kUsage for a file that is there already and steps that the dump has not; those of strip.
[[nodiscard]] Pack pack(const PackOptions& options);

/// Unpacks the dump of an archive into the folder `output`, which has its name only once every byte
/// and the content root were found to be as packed.
/// Errors: kIncomplete where no file is there; kCorrupt for one that is no pack, or damaged; those
/// of DumpPlace.
[[nodiscard]] Pack open_pack(const std::string& path, const std::string& output, bool replace,
                             const DumpJudge& judge);

}  // namespace rlreplay::replay
