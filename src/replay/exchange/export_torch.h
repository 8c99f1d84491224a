#pragma once

#include <optional>
#include <string>
#include <vector>

#include "format/dump_reader.h"
#include "format/foreign/tree_check.h"
#include "src/replay/exchange/selection.h"

namespace rlreplay::replay {

/// What an export wrote, and what of the dump is in none of it: a line each, with the reason.
struct Exported {
  std::vector<std::string> files;
  std::vector<std::string> left_out;
};

/// Writes the files of slime, Miles or Relax below `output`: those that were imported, as they
/// were; of rollouts that this program made, `rollout_data/ID.pt`, and for slime
/// `train_data/ID.pt`. Of chosen samples, of what was imported rollouts only. Where `output` ends
/// with .pt, it is that of the only rollout. Of a dump that holds nothing for that framework there
/// are no files. Errors: kUsage for several rollouts for one file; kEnvironment.
[[nodiscard]] Exported export_torch(const format::DumpReader& dump, const std::string& vendor,
                                    const std::string& output,
                                    const std::optional<ChosenSamples>& chosen);

/// What export_torch refuses of the files that an import kept: each is put together again, and
/// none is written. Errors: kEnvironment.
[[nodiscard]] std::vector<foreign::Problem> check_kept_files(const format::DumpReader& dump);

}  // namespace rlreplay::replay
