#include "src/replay/record/sample_row.h"

namespace rlreplay::replay {

std::vector<double> response_of(const std::optional<format::TokenFloats>& column,
                                const SampleRow& at) {
  std::vector<double> out;
  if (!column || !column->has(at.row)) return out;
  out.reserve(at.end - at.response);
  for (uint64_t t = at.response; t < at.end; ++t) out.push_back(column->at(t));
  return out;
}

std::optional<std::vector<uint8_t>> mask_of(const std::optional<format::Column<uint8_t>>& column,
                                            const SampleRow& at) {
  if (!column || !column->has(at.row)) return std::nullopt;
  return tokens_of(column->values, at.response, at.end);
}

std::optional<Nuclei> nuclei_of(const format::RolloutData& data, const SampleRow& at) {
  if (!data.nucleus || !data.nucleus->has(at.row)) return std::nullopt;
  const format::TokenSets& sets = *data.nucleus;
  uint64_t first = sets.offsets[at.row];
  for (uint64_t t = at.begin; t < at.response; ++t) first += sets.sizes[t];
  Nuclei out;
  out.offsets.reserve(at.end - at.response + 1);
  out.offsets.push_back(0);
  for (uint64_t t = at.response; t < at.end; ++t) {
    out.offsets.push_back(out.offsets.back() + sets.sizes[t]);
  }
  out.ids = tokens_of(sets.ids, first, first + out.offsets.back());
  return out;
}

uint64_t bytes_of_response(const std::optional<format::TokenFloats>& column, const SampleRow& at) {
  if (!column || !column->has(at.row)) return 0;
  return (at.end - at.response) * (column->is_wide() ? sizeof(double) : sizeof(float));
}

uint64_t bytes_of_nuclei(const format::RolloutData& data, const SampleRow& at) {
  if (!data.nucleus || !data.nucleus->has(at.row)) return 0;
  const std::vector<uint64_t>& offsets = data.nucleus->offsets;
  return (at.end - at.response) * sizeof(uint64_t) +
         (offsets[at.row + 1] - offsets[at.row]) * sizeof(int32_t);
}

}  // namespace rlreplay::replay
