#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "src/replay/doctor/weight_files.h"

namespace rlreplay::replay {

/// Rows from `begin`, one behind the other.
struct RowRun {
  int64_t begin = 0, count = 0;
};

/// A tensor under the name that the hub gives it: rows of a stored one, which may be fused of
/// several. A vector has rows of one element.
struct HubTensor {
  const WeightTensor* from = nullptr;
  std::vector<RowRun> runs;
  int64_t rows = 0, columns = 1;
  bool fused = false;

  /// The bytes of a row.
  [[nodiscard]] foreign::Bytes row(int64_t index) const;
};

/// How heads are laid out in fused products; zeros where nothing says it.
struct HeadSizes {
  int64_t heads = 0, groups = 0, size = 0;

  [[nodiscard]] bool known() const { return heads > 0 && groups > 0 && size > 0; }
};
[[nodiscard]] HeadSizes head_sizes(const WeightFiles& weights);

/// All tensors by the hub's names, whether the file has these, those of Megatron or the fused ones
/// of vLLM and SGLang. A tensor of a name that is none of them keeps it.
[[nodiscard]] std::map<std::string, HubTensor> hub_tensors(const WeightFiles& weights,
                                                           const HeadSizes& heads);

}  // namespace rlreplay::replay
