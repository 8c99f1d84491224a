#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/hash.h"
#include "src/replay/causes.h"
#include "src/replay/exchange/data_difference.h"
#include "src/replay/run_difference.h"

namespace rlreplay::replay {

/// What `rlreplay diff` found.
struct DumpsDifference {
  DataDifference data;
  std::vector<Cause> causes;
  std::optional<RunDifference> events;           // of two dumps of ours
  std::string element;                           // how it was found, or why it was not
  std::optional<std::pair<Hash, Hash>> content;  // roots, where the dumps say them themselves
  std::vector<std::string> notes;                // what was not compared, and why
  bool within = false;                           // not identical, but within the tolerances given

  bool identical() const { return data.identical; }
};

/// `differ: 1 option, 2 rollouts, 3 steps`
std::string diff_verdict(const DumpsDifference& difference);

/// For people: what came first, in the order of causes, in at most 20 lines unless `all` is asked
/// for. `verdict`: the first line; `command` shows it again.
std::string diff_text(const DumpsDifference& difference, const std::string& verdict,
                      const std::string& command, bool all);

/// One line: rlreplay.diff/1.
std::string diff_json(const DumpsDifference& difference);

}  // namespace rlreplay::replay
