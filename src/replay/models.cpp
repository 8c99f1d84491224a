#include "src/replay/models.h"

#include <iostream>

#include "src/base/error.h"
#include "src/replay/demo.h"

namespace rlreplay::replay {

std::unique_ptr<ModelSource> find_model(const std::string& name, int64_t seed) {
  if (name.empty()) {
    throw Error(ErrorCode::kUsage, "no model: give --model a checkpoint's folder, or demo");
  }
  if (name == kDemo) return open_demo({static_cast<uint64_t>(seed), DemoOptions{}.warm_steps});
  return open_checkpoint(name);
}

JsonLines open_lines(const std::string& path) {
  if (path != "-") return JsonLines(path);
  return {std::make_unique<std::istream>(std::cin.rdbuf()), "standard input"};
}

}  // namespace rlreplay::replay
