#include "src/replay/models.h"

#include <iostream>

#include "src/base/error.h"

namespace rlreplay::replay {

std::unique_ptr<ModelSource> find_model(const std::string& name) {
  if (name.empty()) {
    throw Error(ErrorCode::kUsage, "no model: give --model a checkpoint's folder, or demo");
  }
  return open_checkpoint(name);
}

JsonLines open_lines(const std::string& path) {
  if (path != "-") return JsonLines(path);
  return {std::make_unique<std::istream>(std::cin.rdbuf()), "standard input"};
}

}  // namespace rlreplay::replay
