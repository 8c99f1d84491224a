#include "src/engine/torch/generation.h"

#include <algorithm>
#include <cmath>
#include <string>

#include <c10/core/GradMode.h>

#include "src/base/error.h"
#include "src/engine/check_samples.h"
#include "src/engine/torch/key_cache.h"

namespace rlreplay::aten {
namespace {

using engine::Request;

/// A response in the making; its keys and values are in the cache's row of the same number.
struct Slot {
  size_t request = 0;
  Sample sample;
  int64_t capacity = 0;  // tokens that it may have
};

/// Continuous batching: a slot a request, in the cache's row of the same number. A turn decodes one
/// token for the slots that were there, prefills those admitted behind them, and fills the place of
/// one that has finished with the last.
class Generation {
 public:
  Generation(const engine::Runtime& runtime, const ModelConfig& model, Network& network,
             at::ScalarType type, std::span<const Request> requests,
             const engine::RolloutConfig& config)
      : runtime_(runtime),
        model_(model),
        network_(network),
        requests_(requests),
        config_(config),
        cache_(model, type, std::min<int64_t>(config.slots, std::ssize(requests)), longest()) {}

  std::vector<Sample> generate(const std::function<void(int64_t)>& progress) {
    std::vector<Sample> out(requests_.size());
    size_t next = 0;
    int64_t finished = 0;
    while (next < requests_.size() || !slots_.empty()) {
      const size_t decoding = slots_.size();
      while (next < requests_.size() && std::ssize(slots_) < config_.slots) admit(next++);
      if (decoding > 0) decode(decoding);
      if (decoding < slots_.size()) prefill(decoding);
      for (size_t i = slots_.size(); i-- > 0;) {
        if (!is_finished(slots_[i])) continue;
        out[slots_[i].request] = std::move(slots_[i].sample);
        release(i);
        if (progress) progress(++finished);
      }
    }
    return out;
  }

 private:
  int64_t capacity(const Request& r) const {
    return std::min(static_cast<int64_t>(r.prompt.size()) + config_.max_response,
                    model_.max_positions);
  }
  int64_t longest() const {
    int64_t out = 1;
    for (const Request& r : requests_) out = std::max(out, capacity(r));
    return out;
  }

  void admit(size_t index) {
    const Request& r = requests_[index];
    Slot slot;
    slot.request = index;
    slot.sample.id = r.id;
    slot.sample.group = r.group;
    slot.sample.tokens = r.prompt;
    slot.sample.prompt_length = static_cast<int64_t>(r.prompt.size());
    slot.capacity = capacity(r);
    slots_.push_back(std::move(slot));
  }

  bool is_finished(const Slot& slot) const {
    const auto& stops = config_.stop_ids;
    return std::find(stops.begin(), stops.end(), slot.sample.tokens.back()) != stops.end() ||
           std::ssize(slot.sample.tokens) >= slot.capacity;
  }

  /// The last slot takes the place of slot i.
  void release(size_t i) {
    const size_t last = slots_.size() - 1;
    if (i != last) {
      cache_.move(static_cast<int64_t>(last), static_cast<int64_t>(i));
      slots_[i] = std::move(slots_[last]);
    }
    slots_.pop_back();
  }

  /// The whole prompts of the slots from `first` on, and a token for each.
  void prefill(size_t first) {
    Packed packed;
    std::vector<int64_t> last;
    for (size_t i = first; i < slots_.size(); ++i) {
      packed.add(slots_[i].sample.tokens);
      last.push_back(std::ssize(packed.ids) - 1);
    }
    const auto hidden = network_.hidden(
        packed.ids, packed.positions,
        [&](int64_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
          cache_.fill(layer, static_cast<int64_t>(first), packed.lengths, k, v);
          return attend_packed(packed.lengths, q, k, v);
        });
    draw(first, slots_.size(), hidden.index_select(0, at::tensor(last, at::kLong)));
  }

  /// The newest token of the first `count` slots, and another one for each.
  void decode(size_t count) {
    std::vector<int64_t> ids, positions;
    for (size_t i = 0; i < count; ++i) {
      ids.push_back(slots_[i].sample.tokens.back());
      positions.push_back(std::ssize(slots_[i].sample.tokens) - 1);
    }
    const DecodeRows rows = cache_.rows(positions);
    const auto hidden =
        network_.hidden(ids, positions,
                        [&](int64_t layer, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v) { return cache_.attend(layer, rows, q, k, v); });
    draw(0, count, hidden);
  }

  /// Draws a token for slots [first, end), given their last row after the final norm.
  void draw(size_t first, size_t end, const at::Tensor& hidden) {
    const auto temperature = static_cast<double>(config_.sampling.temperature);
    const auto logits = network_.logits(hidden, temperature).to(at::kFloat).contiguous();
    const auto all = at::log_softmax(logits, -1);
    const auto max = logits.amax(-1);
    const auto sum = (logits - max.unsqueeze(1)).exp().sum(-1);
    std::vector<kernels::Draw> draws;
    for (size_t i = first; i < end; ++i) {
      const Sample& s = slots_[i].sample;
      draws.push_back({s.id, static_cast<uint32_t>(s.tokens.size())});
    }
    for (size_t i = 0; i < draws.size(); ++i) {
      const auto row = static_cast<int64_t>(i);
      if (std::isfinite(max.const_data_ptr<float>()[row]) &&
          std::isfinite(sum.const_data_ptr<float>()[row])) {
        continue;
      }
      throw Error(ErrorCode::kCorrupt,
                  "the logits for the token at position " + std::to_string(draws[i].position) +
                      " are not finite",
                  "sample " + std::to_string(draws[i].sample));
    }
    std::vector<int32_t> ids(draws.size());
    kernels::DrawTokens op;
    op.logits = {logits.const_data_ptr<float>(), logits.size(0), logits.size(1)};
    op.max = max.const_data_ptr<float>();
    op.sum = sum.const_data_ptr<float>();
    op.draws = draws;
    op.seed = config_.sampling.seed;
    op.greedy = config_.sampling.temperature == 0;
    op.top_k = config_.sampling.top_k;
    op.top_p = config_.sampling.top_p;
    op.ids = ids.data();
    runtime_.run(&kernels::KernelSet::draw_tokens, op);
    for (size_t i = first; i < end; ++i) {
      Sample& s = slots_[i].sample;
      const auto row = static_cast<int64_t>(i - first);
      s.tokens.push_back(ids[i - first]);
      s.loss_mask.push_back(1);
      s.rollout_log_probs.push_back(
          all.const_data_ptr<float>()[row * all.size(1) + ids[i - first]]);
    }
  }

  const engine::Runtime& runtime_;
  const ModelConfig& model_;
  Network& network_;
  std::span<const Request> requests_;
  const engine::RolloutConfig& config_;
  std::vector<Slot> slots_;
  KeyCache cache_;
};

}  // namespace

std::vector<Sample> generate(const engine::Runtime& runtime, const ModelConfig& model,
                             Network& network, at::ScalarType type,
                             std::span<const Request> requests, const engine::RolloutConfig& config,
                             const std::function<void(int64_t)>& progress) {
  engine::check_requests(model, requests, config);
  const c10::NoGradGuard constant;
  return Generation(runtime, model, network, type, requests, config).generate(progress);
}

}  // namespace rlreplay::aten
