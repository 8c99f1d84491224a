#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "format/rollout_data.h"
#include "src/base/sample.h"

namespace rlreplay::replay {

/// Where a sample's tokens lie in a table of columns.
struct SampleRow {
  size_t row = 0;
  uint64_t begin = 0, response = 0, end = 0;
};

/// The values of tokens [begin, end).
template <class T>
[[nodiscard]] std::vector<T> tokens_of(const std::vector<T>& values, uint64_t begin, uint64_t end) {
  return {values.begin() + static_cast<ptrdiff_t>(begin),
          values.begin() + static_cast<ptrdiff_t>(end)};
}

/// The response's values of a row; empty where the sample has none.
[[nodiscard]] std::vector<double> response_of(const std::optional<format::TokenFloats>& column,
                                              const SampleRow& at);

/// The mask of a row's response; nothing where the sample has none.
[[nodiscard]] std::optional<std::vector<uint8_t>> mask_of(
    const std::optional<format::Column<uint8_t>>& column, const SampleRow& at);

/// What top-p kept of a sample's response; nothing where the sample does not say.
[[nodiscard]] std::optional<Nuclei> nuclei_of(const format::RolloutData& data, const SampleRow& at);

/// The bytes that response_of() and nuclei_of() read, as they were decoded: numbers of binary32
/// count 4 bytes, though they become binary64.
[[nodiscard]] uint64_t bytes_of_response(const std::optional<format::TokenFloats>& column,
                                         const SampleRow& at);
[[nodiscard]] uint64_t bytes_of_nuclei(const format::RolloutData& data, const SampleRow& at);

}  // namespace rlreplay::replay
