#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "format/unit_reader.h"

namespace rlreplay::replay {

/// A dataset of a unit that is no difference; both outlive the reading.
struct PlainDataset {
  const format::UnitReader* unit = nullptr;
  const format::StoredDataset* dataset = nullptr;
};

/// Decodes two datasets of the same number of elements side by side, so that neither is ever held
/// whole: `use` is given the same elements of both, in order.
/// Errors: those of UnitReader::stream, of either; what was given until then nobody has checked.
void read_side_by_side(
    const PlainDataset& a, const PlainDataset& b,
    const std::function<void(std::span<const std::byte> a, std::span<const std::byte> b)>& use);

}  // namespace rlreplay::replay
