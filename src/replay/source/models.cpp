#include "src/replay/source/models.h"

#include "src/replay/source/demo.h"
#include "src/task/find_tokenizer.h"

namespace rlreplay::replay {

std::unique_ptr<ModelSource> find_model(const std::string& name, int64_t seed) {
  check_model_name(name);
  if (name == kDemo) return open_demo({static_cast<uint64_t>(seed), DemoOptions{}.warm_steps});
  return open_checkpoint(name);
}

}  // namespace rlreplay::replay
