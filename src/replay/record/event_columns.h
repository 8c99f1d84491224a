#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "src/base/dtype.h"
#include "src/events/event_record.h"

/// The flat arrays in which a unit holds its events (format/SPEC.md, events).
namespace rlreplay::replay {

/// The types of values in the order in which their datasets are written.
inline constexpr DType kValueTypes[] = {DType::kF32,    DType::kF64,  DType::kI32, DType::kI64,
                                        DType::kBool,   DType::kI8,   DType::kI16, DType::kU8,
                                        DType::kU16,    DType::kU32,  DType::kU64, DType::kF8E4M3,
                                        DType::kF8E5M2, DType::kE8M0, DType::kF16, DType::kBF16};
static_assert(std::size(kValueTypes) == std::size(kAllDTypes));

/// Where kValueTypes has a type.
[[nodiscard]] size_t type_index(DType dtype);

/// The arrays of SPEC.md's table.
struct EventColumns {
  std::vector<uint8_t> tensors, digest, row_digest;
  std::vector<uint32_t> rank;
  std::vector<int32_t> row_set;
  std::vector<uint64_t> rows, nonfinite, value_start, value_count;
  std::vector<uint64_t> row_set_offsets{0}, run_sample, run_position, run_count;
  std::vector<uint64_t> row_digest_offsets{0};
  std::vector<uint64_t> parent_offsets, parents;
  std::vector<double> stats;
  std::vector<std::byte> values[std::size(kValueTypes)];
};

/// The arrays of a step's or a rollout's events.
/// Errors: kInternal where some events say no parents, or a parent does not come before its event.
[[nodiscard]] EventColumns event_columns(const engine::StepEvents& events);

/// `NAME DTYPE DIMS`, with its line's end: an event in `tensors`.
[[nodiscard]] std::string tensor_line(const engine::EventRecord& record);

/// One name for each array that every writer writes. `use(name, array, columns of the last axis)`.
template <class C, class Use>
void visit_arrays(C& c, Use use) {
  use("events/tensors", c.tensors, 1);
  use("events/rank", c.rank, 1);
  use("events/rows", c.rows, 1);
  use("events/digest", c.digest, 16);
  use("events/nonfinite", c.nonfinite, 4);
  use("events/row_set", c.row_set, 1);
  use("events/row_set_offsets", c.row_set_offsets, 1);
  use("events/run_sample", c.run_sample, 1);
  use("events/run_position", c.run_position, 1);
  use("events/run_count", c.run_count, 1);
  use("events/row_digest_offsets", c.row_digest_offsets, 1);
  use("events/row_digest", c.row_digest, 16);
  use("events/value_start", c.value_start, 1);
  use("events/value_count", c.value_count, 1);
}

}  // namespace rlreplay::replay
