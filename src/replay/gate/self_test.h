#pragma once

#include <string>
#include <vector>

#include "src/replay/gate/golden.h"

namespace rlreplay::gate {

/// What came of changes that were planted in the values of a golden file, one at a time: a float
/// moves by one ulp, or just beyond its tolerances; another value becomes another text.
struct SelfTest {
  size_t planted = 0;
  std::vector<std::string> unseen = {};  // keys whose change passed
};

/// The most values that changes are planted in, evenly over a file.
inline constexpr size_t kMostPlanted = 1000;

/// Plants a change in each value, or evenly in kMostPlanted of more, and judges it as a run in
/// another environment, where the tolerances count.
[[nodiscard]] SelfTest self_test(const Golden& golden);

}  // namespace rlreplay::gate
