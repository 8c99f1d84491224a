#pragma once

#include "kernels/kernels.h"

/// Each function enters the operations of one header of kernels/ into the table.
namespace rlreplay::kernels::reference {

void add_matmul(KernelSet& set);
void add_rows(KernelSet& set);
void add_attention(KernelSet& set);
void add_vocab(KernelSet& set);
void add_draw_tokens(KernelSet& set);
void add_optimizer(KernelSet& set);

}  // namespace rlreplay::kernels::reference
