#include "src/replay/rerun/operation.h"

#include "src/base/error.h"
#include "src/base/thread_pool.h"
#include "src/replay/rerun/operation_forms.h"

namespace rlreplay::replay {
namespace {

using engine::Op;

std::optional<OperationForm> forward_form(Op op) {
  switch (op) {
    case Op::kEmbedding:
      return OperationForm{compute_embedding, embedding64};
    case Op::kInputNorm:
    case Op::kQkNorm:
    case Op::kPostNorm:
    case Op::kFinalNorm:
      return OperationForm{compute_norm, norm64};
    case Op::kQkv:
    case Op::kOutput:
    case Op::kGateUp:
    case Op::kDown:
      return OperationForm{compute_product, product64};
    case Op::kRotary:
      return OperationForm{compute_rotary, rotary64};
    case Op::kAttention:
      return OperationForm{compute_attention, attention64};
    case Op::kSwiGlu:
      return OperationForm{compute_swiglu, swiglu64};
    case Op::kLogProb:
      return OperationForm{compute_scores, scores64};
    default:
      return std::nullopt;
  }
}

std::optional<OperationForm> backward_form(Op op) {
  switch (op) {
    case Op::kInputNorm:
    case Op::kQkNorm:
    case Op::kPostNorm:
    case Op::kFinalNorm:
      return OperationForm{compute_norm_backward, norm_backward64};
    case Op::kQkv:
    case Op::kOutput:
    case Op::kGateUp:
    case Op::kDown:
      return OperationForm{compute_product_backward, product_backward64};
    case Op::kRotary:
      return OperationForm{compute_rotary, rotary64};
    case Op::kAttention:
      return OperationForm{compute_attention_backward, attention_backward64};
    case Op::kSwiGlu:
      return OperationForm{compute_swiglu_backward, swiglu_backward64};
    case Op::kLogProb:
      return OperationForm{compute_scores_backward, scores_backward64};
    default:
      return std::nullopt;
  }
}

OperationForm needed_form(const Operation& op) {
  const auto form = form_of(op.event);
  check(form.has_value(), "an operation of no form");
  return *form;
}

}  // namespace

std::optional<OperationForm> form_of(const engine::Event& event) {
  if (event.phase == engine::Phase::kForward) return forward_form(event.op);
  if (event.phase == engine::Phase::kBackward) return backward_form(event.op);
  return std::nullopt;
}

std::vector<float> compute(const Operation& op, const engine::Runtime& runtime) {
  std::vector<float> out(static_cast<size_t>(op.count * op.columns));
  needed_form(op).compute(op, runtime, {out.data(), op.count, op.columns});
  return out;
}

std::vector<double> compute_binary64(const Operation& op, ThreadPool& pool) {
  const OperationForm form = needed_form(op);
  const auto columns = static_cast<size_t>(op.columns);
  std::vector<double> out(static_cast<size_t>(op.count) * columns);
  pool.run(op.count, [&](int64_t row, int) {
    form.row64(op, row, std::span(out).subspan(static_cast<size_t>(row) * columns, columns));
  });
  return out;
}

}  // namespace rlreplay::replay
