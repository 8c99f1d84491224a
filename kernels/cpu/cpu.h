#pragma once

#include "kernels/kernels.h"

/// The SIMD kernels: every file is compiled once per target with a fused multiply-add (Highway's
/// foreach_target), and enters its operations for one target into a table.
namespace rlreplay::kernels::cpu {

// `target`: the HWY_<name> bit of a target that these files were compiled for.
void add_matmul(KernelSet& set, int64_t target);
void add_matmul_pack(KernelSet& set, int64_t target);
void add_matmul_tokens(KernelSet& set, int64_t target);
void add_embedding(KernelSet& set, int64_t target);
void add_norm(KernelSet& set, int64_t target);
void add_rows(KernelSet& set, int64_t target);
void add_attention(KernelSet& set, int64_t target);  // calls the next two
void add_attention_forward(KernelSet& set, int64_t target);
void add_attention_backward(KernelSet& set, int64_t target);
void add_vocab(KernelSet& set, int64_t target);
void add_draw_tokens(KernelSet& set, int64_t target);
void add_optimizer(KernelSet& set, int64_t target);

}  // namespace rlreplay::kernels::cpu
