#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernels.h"
#include "src/events/name.h"
#include "src/replay/record/recorded_run.h"

/// One operation of a recorded step, computed again from its recorded inputs.
namespace rlreplay::replay {

/// What one side has of the operation's output.
struct OperationSide {
  std::string by;                // "record" or a kernel set
  int64_t differing = 0;         // elements that are not the record's, by bits
  std::optional<int64_t> first;  // the first of them, an index into the tensor
  double largest = 0;            // error against binary64
  double ulps = 0;               // the largest error in units of the right number's last place
  double rms = 0;
  int64_t at = 0;  // where the error is the largest
};

/// What an operation gives on each side, against the record and against binary64.
struct OperationReplay {
  engine::StepEvent event;
  std::vector<std::string> inputs;
  int64_t rows = 0, columns = 0;
  double magnitude = 0;              // the largest of its numbers in binary64, without the sign
  std::vector<OperationSide> sides;  // the record, then each kernel set

  [[nodiscard]] bool identical() const;
};

/// The kernel set of this name. Errors: kUsage where this processor has none, with those it has.
[[nodiscard]] const kernels::KernelSet& kernels_named(std::string_view name);

/// Computes an operation of a step again by each kernel set and in binary64.
/// Errors: those of RecordedOperation.
[[nodiscard]] OperationReplay replay_operation(const RecordedRun& record,
                                               const engine::StepEvent& event,
                                               std::span<const kernels::KernelSet* const> sets,
                                               ThreadPool& pool);

/// A replayed operation for people, and as one line: rlreplay.operation/1.
[[nodiscard]] std::string operation_text(const OperationReplay& replay);
[[nodiscard]] std::string operation_json(const OperationReplay& replay, const std::string& dump);

}  // namespace rlreplay::replay
