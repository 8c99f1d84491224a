#include "src/engine/memory.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "src/base/error.h"
#include "src/base/parameters.h"
#include "src/base/words.h"
#include "src/engine/head.h"
#include "src/engine/streamed_score.h"

namespace rlreplay::engine {
namespace {

constexpr int64_t kFloat = sizeof(float);

int64_t heads_width(const ModelConfig& c) { return (c.heads + 2 * c.kv_heads) * c.head_dim; }

/// Bytes of that many floats; more than any machine has where 64 bits cannot count them.
int64_t float_bytes(int64_t rows, int64_t width) {
  constexpr int64_t kMost = int64_t{1} << 58;  // some of them can be added
  int64_t out = 0;
  const bool fits =
      !__builtin_mul_overflow(rows, width, &out) && !__builtin_mul_overflow(out, kFloat, &out);
  return fits ? std::min(out, kMost) : kMost;
}

/// Elements of all products of a model, each once.
int64_t product_elements(const ModelConfig& c) {
  const int64_t layer = c.hidden * (heads_width(c) + c.heads * c.head_dim + 3 * c.intermediate);
  return c.layers * layer + c.vocab * c.hidden;
}

/// Floats a token of LayerActivations without x.
int64_t layer_width(const ModelConfig& c) {
  return 3 * c.hidden + 2 + heads_width(c) + (2 * c.heads + c.kv_heads) * c.head_dim + 2 * c.heads +
         c.kv_heads + 3 * c.intermediate;
}

/// Floats a token of LayerScratch.
int64_t scratch_width(const ModelConfig& c) {
  return 3 * c.intermediate + 2 * c.hidden + c.heads * c.head_dim + c.heads + heads_width(c);
}

/// Floats a token of transformer_forward: one layer's activations, x, the layer's output, hidden.
int64_t forward_width(const ModelConfig& c) { return layer_width(c) + 3 * c.hidden + 1; }

/// Floats a token of a StageBatch.
int64_t train_width(const ModelConfig& c, bool recompute) {
  const int64_t inputs = (c.layers + 1) * c.hidden;
  const int64_t kept = (recompute ? 1 : c.layers) * layer_width(c);
  const int64_t rows = (recompute ? 4 : 3) * c.hidden + 1;  // hidden, dhidden, dx
  return inputs + kept + rows + scratch_width(c);
}

/// Floats a token of a step's recorded values: what its forward and backward show, twice while they
/// are put in order.
int64_t recorded_width(const ModelConfig& c) { return 2 * 2 * c.layers * layer_width(c); }

std::string gigabytes(int64_t bytes) {
  return formatted("%.3g GB", static_cast<double>(bytes) * 1e-9);
}

}  // namespace

int64_t MemoryEstimate::total() const {
  return weights + packed + moments + gradients + reference + logits + recording + ranks +
         std::max(activations, rollout_activations + kv_cache);
}

MemoryEstimate estimate_memory(const ModelConfig& c, const MemoryShape& s) {
  const int64_t elements = make_parameters(c).elements;
  const int64_t products = product_elements(c) * kFloat;
  MemoryEstimate out;
  out.weights = elements * kFloat;
  out.packed = s.training ? 2 * products : products;
  if (s.training) {
    out.moments = 2 * elements * kFloat;
    out.gradients = elements * static_cast<int64_t>(sizeof(int64_t));
  }
  if (s.reference) out.reference = out.weights;
  if (s.layout.ranks() > 1) {
    // Every group of dp and cp holds the model once, with what training needs; each micro-batch's
    // rows are cut by cp alone.
    const int64_t models = s.layout.dp * s.layout.cp;
    const auto sums = elements * static_cast<int64_t>(sizeof(int64_t));
    out.ranks = models * (out.weights + 2 * products + sums) +
                (s.layout.zero ? s.layout.cp : models) * 2 * out.weights;
  }
  const int64_t width = s.training ? train_width(c, s.recompute) : forward_width(c);
  const int64_t at_once = s.layout.ranks() / s.layout.cp;
  out.activations = float_bytes(at_once * s.micro_batch_tokens, width);
  // Ranks of dp and cp share the slots, each of the others has all rows; those of tp gather logits.
  const int64_t holders = int64_t{s.layout.tp} * s.layout.pp;
  out.rollout_activations = float_bytes(holders * s.slots * s.longest_prompt, forward_width(c));
  out.kv_cache = float_bytes(s.slots * s.longest_sample, 2 * c.layers * c.kv_heads * c.head_dim);
  const int64_t drawn = s.layout.tp == 1 ? s.slots : (1 + 2 * int64_t{s.layout.tp}) * s.slots;
  const int64_t rows =
      std::max(drawn, s.layout.dp * s.layout.cp * std::min(s.micro_batch_tokens, kHeadRows));
  out.logits = float_bytes(rows, (s.nuclei ? 2 : 1) * c.vocab + c.hidden);
  out.recording = s.recorded_state_bytes + float_bytes(s.recorded_tokens, recorded_width(c));
  return out;
}

MemoryEstimate estimate_memory(const ModelConfig& c, const StreamOptions& options,
                               const StreamPlan& plan) {
  const int64_t layer = c.hidden * (heads_width(c) + c.heads * c.head_dim + 3 * c.intermediate);
  MemoryEstimate out;
  out.weights = std::max(layer, c.vocab * c.hidden) * kFloat;
  out.packed = out.weights;
  out.activations = float_bytes(plan.block_tokens, c.hidden * (options.rounded ? 2 : 1)) +
                    float_bytes(plan.micro_batch_tokens, forward_width(c));
  out.logits = float_bytes(std::min(plan.micro_batch_tokens, kHeadRows),
                           (plan.nuclei ? 2 : 1) * c.vocab + c.hidden);
  return out;
}

std::string to_string(const MemoryEstimate& e) {
  const std::array<std::pair<std::string_view, int64_t>, 11> parts{{
      {"weights", e.weights},
      {"packed", e.packed},
      {"moments", e.moments},
      {"gradients", e.gradients},
      {"reference", e.reference},
      {"ranks", e.ranks},
      {"activations", e.activations},
      {"rollout", e.rollout_activations},
      {"kv cache", e.kv_cache},
      {"logits", e.logits},
      {"recording", e.recording},
  }};
  std::string out;
  for (const auto& [name, bytes] : parts) {
    if (bytes == 0) continue;
    if (!out.empty()) out += ", ";
    out += std::string(name) + " " + gigabytes(bytes);
  }
  return out + "; " + gigabytes(e.total()) + " at the peak";
}

void check_memory(const MemoryEstimate& e, int64_t available) {
  if (e.total() <= available) return;
  const int64_t step = std::max(e.activations, e.rollout_activations + e.kv_cache);
  const bool rollout = step > e.activations;
  const char* smaller = rollout ? "--rollout-slots or --rollout-max-response-len"
                                : "--micro-batch-size, or --recompute";
  if (e.recording > step) smaller = "--record (without +values) or --weights";
  throw Error(ErrorCode::kEnvironment, "this run needs about " + gigabytes(e.total()) +
                                           " of memory and " + gigabytes(available) +
                                           " are free (" + to_string(e) + "): use a smaller " +
                                           smaller + ", or a smaller model");
}

}  // namespace rlreplay::engine
