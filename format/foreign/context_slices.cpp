#include "format/foreign/context_slices.h"

#include <algorithm>

namespace rlreplay::foreign {

std::array<ResponseRange, 2> response_slices(int64_t total, int64_t response, int64_t padded,
                                             int64_t cp_size, int64_t cp_rank) {
  const int64_t first = total - response - 1;  // position that predicts the first response token
  const int64_t chunk = (padded + 2 * cp_size - 1) / (2 * cp_size);
  const auto slice = [&](int64_t index) {
    const int64_t begin = std::max(index * chunk, first);
    const int64_t end = std::max(begin, std::min((index + 1) * chunk, total - 1));
    return ResponseRange{begin - first, end - first};
  };
  return {slice(cp_rank), slice(2 * cp_size - 1 - cp_rank)};
}

}  // namespace rlreplay::foreign
