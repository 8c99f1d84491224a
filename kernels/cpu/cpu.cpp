#include "kernels/cpu/cpu.h"

#include <hwy/highway.h>

#include "kernels/cpu/dispatch.h"

namespace rlreplay::kernels {

const std::vector<KernelSet>& cpu_kernel_sets() {
  static const std::vector<KernelSet> sets = [] {
    std::vector<KernelSet> out;
    // Lower bits are better targets.
    for (int64_t targets = hwy::SupportedTargets() & cpu::kTargets; targets != 0;
         targets &= targets - 1) {
      const int64_t target = targets & -targets;
      KernelSet& set = out.emplace_back();
      set.name = cpu::target_name(target);
      cpu::add_matmul(set, target);
      cpu::add_matmul_pack(set, target);
      cpu::add_matmul_tokens(set, target);
      cpu::add_embedding(set, target);
      cpu::add_norm(set, target);
      cpu::add_rows(set, target);
      cpu::add_attention(set, target);
      cpu::add_vocab(set, target);
      cpu::add_draw_tokens(set, target);
      cpu::add_optimizer(set, target);
    }
    return out;
  }();
  return sets;
}

const KernelSet& cpu_kernels() {
  return cpu_kernel_sets().empty() ? reference_kernels() : cpu_kernel_sets().front();
}

}  // namespace rlreplay::kernels
