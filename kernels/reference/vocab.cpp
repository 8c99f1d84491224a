#include "kernels/reference/reference.h"

namespace rlreplay::kernels::reference {

void add_vocab(KernelSet&) {}

}  // namespace rlreplay::kernels::reference
