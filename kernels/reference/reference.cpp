#include "kernels/reference/reference.h"

namespace rlreplay::kernels {

const KernelSet& reference_kernels() {
  static const KernelSet set = [] {
    KernelSet out;
    out.name = "reference";
    reference::add_matmul(out);
    reference::add_rows(out);
    reference::add_attention(out);
    reference::add_vocab(out);
    reference::add_draw_tokens(out);
    reference::add_optimizer(out);
    return out;
  }();
  return set;
}

}  // namespace rlreplay::kernels
