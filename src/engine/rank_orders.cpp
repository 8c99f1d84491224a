#include "src/engine/rank_orders.h"

namespace rlreplay::engine {
namespace {

/// Calls use(field) for each: one list for both directions.
template <class M, class Use>
void model_fields(M& m, const Use& use) {
  use(m.architecture), use(m.hidden), use(m.intermediate), use(m.layers), use(m.heads);
  use(m.kv_heads), use(m.head_dim), use(m.vocab), use(m.max_positions), use(m.norm_eps);
  use(m.rope_theta), use(m.rope_scaling), use(m.tied), use(m.qkv_bias), use(m.qk_norm);
  use(m.stop_ids);
}
template <class S, class Use>
void sample_fields(S& s, const Use& use) {
  use(s.id), use(s.group), use(s.tokens), use(s.prompt_length), use(s.reward), use(s.loss_mask);
  use(s.rollout_log_probs), use(s.trajectory), use(s.trajectory_tokens);
}
template <class T, class Use>
void target_fields(T& t, const Use& use) {
  use(t.advantages), use(t.old_log_probs), use(t.ref_log_probs), use(t.values);
  use(t.teacher_log_probs), use(t.reverse_kl);
}
template <class C, class Use>
void step_fields(C& c, const Use& use) {
  use(c.objective), use(c.train), use(c.optimizer), use(c.lr), use(c.micro_batch_size);
  use(c.trajectories);
}
template <class C, class Use>
void rollout_fields(C& c, const Use& use) {
  use(c.sampling), use(c.max_response), use(c.stop_ids), use(c.slots);
}
template <class R, class Use>
void replica_fields(R& r, const Use& use) {
  use(r.index), use(r.place), use(r.rank), use(r.other), use(r.outvoted), use(r.copies);
  use(r.value), use(r.other_value);
}
template <class R, class Use>
void result_fields(R& r, const Use& use) {
  use(r.losses), use(r.grad_norm), use(r.clip_scale), use(r.scale);
}

auto adder(Packer& to) {
  return [&to](const auto& field) { to.add(field); };
}
auto taker(Unpacker& from) {
  return [&from](auto& field) { from.take(field); };
}

void pack_sample(Packer& to, const Sample& sample) {
  sample_fields(sample, adder(to));
  to.add(sample.nuclei.has_value());
  if (sample.nuclei) to.add(sample.nuclei->offsets).add(sample.nuclei->ids);
}

void unpack_sample(Unpacker& from, Sample& sample) {
  sample_fields(sample, taker(from));
  if (!from.take<bool>()) return;
  sample.nuclei.emplace();
  from.take(sample.nuclei->offsets);
  from.take(sample.nuclei->ids);
}

void pack_held(Packer& to, const std::optional<HeldBatch>& held) {
  to.add(held.has_value());
  if (!held) return;
  to.add(uint64_t{held->weights.size()});
  for (const auto& [sample, weight] : held->weights) to.add(sample).add(weight);
  to.add(held->counts).add(held->loss_weight).add(held->scale);
}

void unpack_held(Unpacker& from, std::optional<HeldBatch>& held) {
  if (!from.take<bool>()) return;
  held.emplace();
  for (auto left = from.take<uint64_t>(); left > 0; --left) {
    const auto sample = from.take<uint64_t>();
    held->weights[sample] = from.take<double>();
  }
  from.take(held->counts);
  from.take(held->loss_weight);
  from.take(held->scale);
}

/// Room for as many as were packed. Each takes a byte at least.
template <class T>
void make_room(Unpacker& from, std::vector<T>& items) {
  const auto count = from.take<uint64_t>();
  check(count <= from.size(), "a message of another rank ends too early");
  items.resize(count);
}

// unpack takes what pack has added, in its order: fields have no tags, and a message that is too
// short is an error of Unpacker.
void pack_events(Packer& to, const std::vector<Event>& events) {
  to.add(uint64_t{events.size()});
  for (const Event& e : events) pack(to, e);
}

void unpack_events(Unpacker& from, std::vector<Event>& events) {
  make_room(from, events);
  for (Event& e : events) unpack(from, e);
}

}  // namespace

Packer& pack(Packer& to, const RankOpening& o) {
  model_fields(o.model, adder(to));
  return to.add(o.rope).add(o.layout).add(o.threads).add(o.silence);
}

void unpack(Unpacker& from, RankOpening& o) {
  model_fields(o.model, taker(from));
  from.take(o.rope);
  from.take(o.layout);
  from.take(o.threads);
  from.take(o.silence);
}

Packer& pack(Packer& to, const RankStep& step) {
  pack(to, step.samples);
  for (const SampleTargets& t : step.targets) target_fields(t, adder(to));
  step_fields(step.config, adder(to));
  pack_held(to, step.config.held);
  to.add(step.tells_progress);
  pack_events(to, step.wanted);
  pack_events(to, step.wanted_parts);
  return to;
}

void unpack(Unpacker& from, RankStep& step) {
  unpack(from, step.samples);
  step.targets.resize(step.samples.size());
  for (SampleTargets& t : step.targets) target_fields(t, taker(from));
  step_fields(step.config, taker(from));
  unpack_held(from, step.config.held);
  from.take(step.tells_progress);
  unpack_events(from, step.wanted);
  unpack_events(from, step.wanted_parts);
}

Packer& pack(Packer& to, const RankRollout& rollout) {
  to.add(uint64_t{rollout.requests.size()});
  for (const Request& r : rollout.requests) to.add(r.id).add(r.group).add(r.prompt);
  rollout_fields(rollout.config, adder(to));
  pack_events(to, rollout.wanted);
  return to;
}

void unpack(Unpacker& from, RankRollout& rollout) {
  make_room(from, rollout.requests);
  for (Request& r : rollout.requests) {
    from.take(r.id);
    from.take(r.group);
    from.take(r.prompt);
  }
  rollout_fields(rollout.config, taker(from));
  unpack_events(from, rollout.wanted);
}

Packer& pack(Packer& to, const RankScoring& scoring) {
  return pack(to, scoring.samples).add(scoring.temperature).add(scoring.micro_batch_size);
}

void unpack(Unpacker& from, RankScoring& scoring) {
  unpack(from, scoring.samples);
  from.take(scoring.temperature);
  from.take(scoring.micro_batch_size);
}

Packer& pack(Packer& to, const std::vector<Sample>& samples) {
  to.add(uint64_t{samples.size()});
  for (const Sample& s : samples) pack_sample(to, s);
  return to;
}

void unpack(Unpacker& from, std::vector<Sample>& samples) {
  make_room(from, samples);
  for (Sample& s : samples) unpack_sample(from, s);
}

Packer& pack(Packer& to, const std::vector<Scores>& scores) {
  to.add(uint64_t{scores.size()});
  for (const Scores& s : scores) to.add(s.log_probs).add(s.entropy);
  return to;
}

void unpack(Unpacker& from, std::vector<Scores>& scores) {
  make_room(from, scores);
  for (Scores& s : scores) {
    from.take(s.log_probs);
    from.take(s.entropy);
  }
}

Packer& pack(Packer& to, const StepResult& result) {
  result_fields(result, adder(to));
  pack(to, result.scores);
  for (const auto& terms : result.terms) to.add(terms);
  to.add(result.replicas.has_value());
  if (!result.replicas) return to;
  replica_fields(*result.replicas, adder(to));
  return pack(to, result.replicas->event);
}

void unpack(Unpacker& from, StepResult& result) {
  result_fields(result, taker(from));
  unpack(from, result.scores);
  result.terms.resize(result.scores.size());
  for (auto& terms : result.terms) from.take(terms);
  if (!from.take<bool>()) return;
  replica_fields(result.replicas.emplace(), taker(from));
  unpack(from, result.replicas->event);
}

Packer& pack(Packer& to, const Event& e) {
  return to.add(e.phase).add(e.layer).add(e.op).add(e.tensor);
}

void unpack(Unpacker& from, Event& e) {
  from.take(e.phase);
  from.take(e.layer);
  from.take(e.op);
  from.take(e.tensor);
}

}  // namespace rlreplay::engine
