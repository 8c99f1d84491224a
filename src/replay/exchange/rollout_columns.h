#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "format/foreign/pickle_writer.h"
#include "format/foreign/rollout_file.h"
#include "format/foreign/torch_file.h"
#include "format/rollout_data.h"

namespace rlreplay::replay {

/// Moves what is nearly all of a rollout dump to `data`, which has the ids of its samples: tokens,
/// their columns, and texts. Row r is sample order[r] of the file. What `data` then holds, type and
/// bits, is noted in `replacements` by its place below `owner`; lists that nothing else refers to
/// are freed as they are moved, so that there are never two copies of them all.
void move_columns(foreign::TorchFile& file, const foreign::RolloutFile& batch,
                  std::span<const size_t> order, const std::string& owner,
                  format::RolloutData& data, foreign::Replacements& replacements);

/// The ids that tell samples apart which count as one together; nothing where none do.
[[nodiscard]] std::optional<format::Column<uint64_t>> shared_ids(
    std::span<const size_t> rows, const std::vector<std::optional<int64_t>>& ids);

/// Keeps which samples have a field where not all do, and drops a field that none has.
template <class Field>
void keep_presence(std::optional<Field>& field, format::Presence presence) {
  const auto count = static_cast<size_t>(std::count(presence.begin(), presence.end(), 1));
  if (count == 0) {
    field.reset();
  } else if (count != presence.size()) {
    field->presence = std::move(presence);
  }
}

}  // namespace rlreplay::replay
