#include "kernels/reference/reference.h"

namespace rlreplay::kernels::reference {

void add_optimizer(KernelSet&) {}

}  // namespace rlreplay::kernels::reference
