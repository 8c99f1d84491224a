#pragma once

#include <string_view>
#include <vector>

#include "kernels/attention.h"
#include "kernels/draw_tokens.h"
#include "kernels/matmul.h"
#include "kernels/optimizer.h"
#include "kernels/rows.h"
#include "kernels/vocab.h"

namespace rlreplay {
class ThreadPool;
}

/// The one table of operations. Every entry has one set of bits, whatever fills the table: each
/// descriptor states its shapes, units and order of summation where it is declared.
///
/// Operations compute in binary32, round to nearest even, and round where their descriptor writes
/// an operation (profile `fp32`); the optimizer's compute in binary64 and exact integers, as it
/// says. A profile that rounds to bf16 would do so at the points of the last column.
///
// clang-format off
/// | operation                | header        | sums        | bf16 rounding points (reserved) |
/// |--------------------------|---------------|-------------|---------------------------------|
/// | pack_weight              | matmul.h      | -           | weights                         |
/// | matmul, combine_segments | matmul.h      | dot         | y                               |
/// | matmul_tokens            | matmul.h      | tokens      | -                               |
/// | embedding                | rows.h        | -           | -                               |
/// | embedding_tokens         | rows.h        | tokens      | -                               |
/// | rms_norm                 | rows.h        | row         | y                               |
/// | rms_norm_backward        | rows.h        | row, tokens | dx                              |
/// | bias_tokens              | rows.h        | tokens      | -                               |
/// | rotary                   | rows.h        | -           | y                               |
/// | swiglu, swiglu_backward  | rows.h        | -           | out, dgate, dup                 |
/// | attention                | attention.h   | dot, row    | out                             |
/// | attention_delta          | attention.h   | row         | -                               |
/// | attention_backward       | attention.h   | dot, blocks | dq, dk, dv                      |
/// | vocab_max                | vocab.h       | -           | -                               |
/// | vocab_sums, log_prob     | vocab.h       | row, tree   | -                               |
/// | log_prob_backward        | vocab.h       | -           | dlogits                         |
/// | draw_tokens              | draw_tokens.h | integers    | -                               |
/// | sum_squares              | optimizer.h   | exact       | -                               |
/// | token_gradient, adamw    | optimizer.h   | -           | weights (copy)                  |
// clang-format on
namespace rlreplay::kernels {

/// Runs one operation on the threads of a pool, and returns when it is done.
template <class Op>
using Kernel = void (*)(const Op& op, ThreadPool& pool);

/// One filling of the table. The sets that the functions below return have every entry.
struct KernelSet {
  std::string_view name;  // reference, avx2, avx512, neon

  void (*pack_weight)(const PackWeight& op, PackedWeight& out, ThreadPool& pool) = nullptr;
  Kernel<Matmul> matmul = nullptr;
  Kernel<CombineSegments> combine_segments = nullptr;
  Kernel<MatmulTokens> matmul_tokens = nullptr;

  Kernel<Embedding> embedding = nullptr;
  Kernel<EmbeddingTokens> embedding_tokens = nullptr;
  Kernel<RmsNorm> rms_norm = nullptr;
  Kernel<RmsNormBackward> rms_norm_backward = nullptr;
  Kernel<BiasTokens> bias_tokens = nullptr;
  Kernel<Rotary> rotary = nullptr;
  Kernel<SwiGlu> swiglu = nullptr;
  Kernel<SwiGluBackward> swiglu_backward = nullptr;

  Kernel<Attention> attention = nullptr;
  Kernel<AttentionDelta> attention_delta = nullptr;
  Kernel<AttentionBackward> attention_backward = nullptr;

  Kernel<VocabMax> vocab_max = nullptr;
  Kernel<VocabSums> vocab_sums = nullptr;
  Kernel<LogProb> log_prob = nullptr;
  Kernel<LogProbBackward> log_prob_backward = nullptr;
  Kernel<DrawTokens> draw_tokens = nullptr;

  Kernel<SumSquares> sum_squares = nullptr;
  Kernel<TokenGradient> token_gradient = nullptr;
  Kernel<AdamW> adamw = nullptr;
};

/// Plain loops, obviously the contract; also what runs on a processor without fused multiply-add.
[[nodiscard]] const KernelSet& reference_kernels();

/// The SIMD kernel sets that this processor can run, fastest first; empty where it has no target
/// with a fused multiply-add.
[[nodiscard]] const std::vector<KernelSet>& cpu_kernel_sets();

/// The fastest set of this processor: the first of cpu_kernel_sets(), else the reference.
[[nodiscard]] const KernelSet& cpu_kernels();

}  // namespace rlreplay::kernels
