#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/hash.h"
#include "src/replay/compare/beside_content.h"
#include "src/replay/compare/causes.h"
#include "src/replay/compare/data_difference.h"
#include "src/replay/compare/run_difference.h"

namespace rlreplay::replay {

/// What two dumps differ in, and why.
struct DumpsDifference {
  DataDifference data;
  std::vector<Cause> causes;
  std::optional<RunDifference> events;           // of two captures
  std::string element;                           // how it was found, or why it was not
  std::optional<std::pair<Hash, Hash>> content;  // roots, where the dumps say them themselves
  std::vector<std::string> notes;                // what was not compared, and why
  bool a_imported = false, b_imported = false;   // not captured by this program
  BesideContent beside;
  bool within = false;  // not identical, but within the tolerances given

  [[nodiscard]] bool identical() const { return data.identical; }
  /// Where the events part; null where they do not, or there are none.
  const Origin* origin() const {
    return events && !events->step.identical() ? &*events->step.origin : nullptr;
  }
};

/// Finds the element of a difference that the records are too coarse to name, where it can, and
/// says how, or why it cannot.
using ElementFinder = std::function<std::string(const RecordedRun& a, const RecordedRun& b,
                                                StepDifference& difference)>;

/// Compares all that is part of the content of two dumps, and says what caused the difference, in
/// the order of causes, and where in the run it begins: events of the first step that differs, with
/// the element as far as records or `find_element` name it.
/// Errors: those of compare_data; FormatError for a record that says something else than its unit.
[[nodiscard]] DumpsDifference compare_dumps(const RecordedRun& a, const RecordedRun& b,
                                            const DiffOptions& options = {},
                                            const ElementFinder& find_element = {},
                                            const KeptFinder& find_kept = {});

}  // namespace rlreplay::replay
