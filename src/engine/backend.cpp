#include "src/engine/backend.h"

#include <memory>
#include <string>

#include "src/base/error.h"
#include "src/engine/backend_torch_library.h"

namespace rlreplay::engine {

std::unique_ptr<Backend> make_backend(std::string_view name, const Runtime& runtime,
                                      const BackendConfig& config) {
  if (name == "portable" && config.layout.ranks() > 1) return make_layout_backend(runtime, config);
  if (name == "portable") return make_portable_backend(runtime, config);
  if (name == "torch") return load_torch_backend(find_torch_library(), runtime, config);
  throw Error(ErrorCode::kUsage,
              "there is no backend '" + std::string(name) + "': there are portable and torch");
}

}  // namespace rlreplay::engine
