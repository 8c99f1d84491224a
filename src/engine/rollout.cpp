#include "src/engine/rollout.h"

#include <algorithm>
#include <memory>

#include "src/engine/check_samples.h"
#include "src/engine/finite.h"

namespace rlreplay::engine {
namespace {

/// A sample that is being generated: `cached` tokens have been through the model.
struct Slot {
  size_t request = 0;
  Sample sample;
  std::unique_ptr<KvCache> cache;
  int64_t cached = 0;
  bool finished = false;
};

Slot make_slot(const Model& model, const Request& request, size_t index,
               const RolloutConfig& config) {
  const int64_t prompt = static_cast<int64_t>(request.prompt.size());
  Slot out;
  out.request = index;
  out.sample.id = request.id;
  out.sample.group = request.group;
  out.sample.tokens = request.prompt;
  out.sample.prompt_length = prompt;
  const int64_t capacity = std::min(prompt + config.max_response, model.config().max_positions);
  out.cache = std::make_unique<KvCache>(model, capacity);
  return out;
}

/// Appends a token; the sample ends at a stop id or where its cache is full.
void append(Slot& slot, int32_t token, float log_prob, const RolloutConfig& config) {
  Sample& s = slot.sample;
  s.tokens.push_back(token);
  s.loss_mask.push_back(1);
  s.rollout_log_probs.push_back(log_prob);
  const auto& stops = config.stop_ids;
  slot.finished = std::find(stops.begin(), stops.end(), token) != stops.end() ||
                  static_cast<int64_t>(s.tokens.size()) >= slot.cache->capacity();
}

/// A token for every slot, and its log-probability.
struct Drawn {
  std::vector<int32_t> ids;
  std::vector<float> log_probs;
};

Drawn draw(const Runtime& runtime, VocabPass& vocab, std::span<const kernels::Draw> draws,
           const SamplingConfig& config) {
  Drawn out;
  out.ids = vocab.sample(draws, config);
  std::vector<uint64_t> samples;
  std::vector<int32_t> positions;
  for (const kernels::Draw& d : draws) {
    samples.push_back(d.sample);
    positions.push_back(static_cast<int32_t>(d.position));
  }
  const auto rows = static_cast<int64_t>(draws.size());
  const auto emit = [&](std::string_view tensor, auto* values) {
    runtime.emit({Phase::kRollout, -1, Op::kSample, tensor}, kernels::Matrix(values, rows, 1),
                 {samples.data(), positions.data()});
  };
  emit("token", out.ids.data());
  vocab.score(out.ids);
  emit("log_prob", vocab.log_probs().data());
  out.log_probs.assign(vocab.log_probs().begin(), vocab.log_probs().end());
  return out;
}

/// Gives what the last stage of a pipeline has drawn to the stages before it.
void share(const Runtime& runtime, size_t count, Drawn& drawn) {
  Group& pp = runtime.ranks->pp;
  const int last = pp.size() - 1;
  drawn.ids.resize(count);
  drawn.log_probs.resize(count);
  const auto ids = std::as_writable_bytes(std::span(drawn.ids));
  const auto log_probs = std::as_writable_bytes(std::span(drawn.log_probs));
  if (pp.rank() < last) {
    pp.receive(last, ids);
    pp.receive(last, log_probs);
    return;
  }
  for (int stage = 0; stage < last; ++stage) {
    pp.send(stage, ids);
    pp.send(stage, log_probs);
  }
}

/// One token for every slot: the tokens not yet cached go through the model together.
void advance(const ModelContext& context, std::vector<Slot>& slots, const RolloutConfig& config,
             VocabPass& vocab) {
  std::vector<Chunk> chunks;
  std::vector<KvCache*> caches;
  std::vector<kernels::Draw> draws;
  for (Slot& slot : slots) {
    const std::span<const int32_t> tokens = slot.sample.tokens;
    chunks.push_back(
        {slot.sample.id, slot.cached, tokens.subspan(static_cast<size_t>(slot.cached))});
    caches.push_back(slot.cache.get());
    draws.push_back({slot.sample.id, static_cast<uint32_t>(tokens.size())});
  }
  RowBatch batch = make_row_batch(chunks, 0);
  batch.phase = Phase::kRollout;
  Buffer<float> hidden;
  transformer_forward(context, batch, caches, hidden);
  Drawn drawn;
  if (context.model.shard().last) {
    std::vector<int64_t> last;
    for (const kernels::Range& rows : batch.chunks) last.push_back(rows.end - 1);
    vocab.forward({hidden.data(), batch.rows(), context.model.config().hidden}, last);
    vocab.sum_exponentials();
    if (const int64_t row = vocab.first_not_finite(); row >= 0) {
      const kernels::Draw& d = draws[static_cast<size_t>(row)];
      refuse_logits(context, batch, caches, d.sample, d.position);
    }
    drawn = draw(context.runtime, vocab, draws, config.sampling);
  }
  if (context.runtime.pp() != nullptr) share(context.runtime, slots.size(), drawn);
  for (size_t i = 0; i < slots.size(); ++i) {
    slots[i].cached = static_cast<int64_t>(slots[i].sample.tokens.size());
    append(slots[i], drawn.ids[i], drawn.log_probs[i], config);
  }
}

}  // namespace

/// A slot that ends is filled with the next request before the next token: how samples share a pass
/// changes nothing, since noise and rows go by a sample's id.
std::vector<Sample> rollout(const ModelContext& context, std::span<const Request> requests,
                            const RolloutConfig& config,
                            const std::function<void(int64_t)>& progress) {
  const Model& model = context.model;
  check_requests(model.config(), requests, config);
  std::vector<Sample> out(requests.size());
  VocabPass vocab(context.runtime, model, config.sampling.temperature);
  std::vector<Slot> slots;
  size_t next = 0;
  int64_t finished = 0;
  while (next < requests.size() || !slots.empty()) {
    while (next < requests.size() && static_cast<int64_t>(slots.size()) < config.slots) {
      slots.push_back(make_slot(model, requests[next], next, config));
      ++next;
    }
    advance(context, slots, config, vocab);
    std::erase_if(slots, [&](Slot& slot) {
      if (!slot.finished) return false;
      out[slot.request] = std::move(slot.sample);
      if (progress) progress(++finished);
      return true;
    });
  }
  return out;
}

}  // namespace rlreplay::engine
