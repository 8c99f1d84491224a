#pragma once

#include <string>

#include "src/replay/doctor/hub_tensors.h"

namespace rlreplay::replay {

/// How a tensor differs from another, the kinds that have a cause of their own first.
enum class TensorDifference {
  kEqual,
  kCast,        // what the wider one rounds to, or is cut to; of bf16 and f16: within rounding
  kNear,        // near what the wider one rounds to
  kPadded,      // one has rows beyond those of the other, which are equal
  kTransposed,  // rows are the other's columns
  kShape,
  kSwapped,  // it is another tensor of the reference: gate and up
  kHeads,    // the same rows, whole heads in another order
  kRotary,   // the same rows, in another order within each head
  kOrder,    // the same rows in any other order
  kValues,
};

/// `head`: rows of a head, or 0; `vocabulary`: whether rows may be padding.
/// Memory: a copy, rounded, of one of binary32 where the other is bf16 or f16.
[[nodiscard]] TensorDifference compare_tensors(const HubTensor& a, const HubTensor& b, int64_t head,
                                               bool vocabulary);

/// Whether both have the same shape and bytes; of bf16 or f16 and binary32, whether the one is what
/// the other rounds to, to nearest and ties to even.
[[nodiscard]] bool same_numbers(const HubTensor& a, const HubTensor& b);

/// "relative distance 0.03, first at [7, 5]".
[[nodiscard]] std::string distance_text(const HubTensor& a, const HubTensor& b);

}  // namespace rlreplay::replay
