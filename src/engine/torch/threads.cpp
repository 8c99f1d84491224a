#include "src/engine/torch/threads.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

namespace rlreplay::aten {

void set_threads(int threads) { at::set_num_threads(threads); }

}  // namespace rlreplay::aten

extern "C" const char* rlreplay_torch_version() { return RLREPLAY_TORCH_VERSION; }
