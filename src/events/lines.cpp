#include "src/events/lines.h"

#include <utility>

namespace rlreplay::engine {
namespace {

using enum Op;
using enum Kind;
using enum Width;
using enum Granularity;
using enum When;
using enum Reach;

using Inputs = std::vector<Input>;

Input in(Phase phase, Op op, std::string_view tensor, Reach reach = kRow, At at = At::kHere) {
  return {phase, op, tensor, reach, at, kAlways, false};
}

Input only(When when, Input input) {
  input.when = when;
  return input;
}

/// A weight as the step before left it.
Input weight(std::string_view tensor, At at = At::kHere) {
  return {Phase::kOptimizer, kWeight, tensor, kAll, at, kAlways, true};
}

/// Adds the output head's weight to inputs: lm_head's, or the embedding's where they are tied.
Inputs with_head(Inputs inputs) {
  inputs.push_back(only(kUntied, weight("lm_head.weight", At::kNone)));
  inputs.push_back(only(kTied, weight("model.embed_tokens.weight", At::kNone)));
  return inputs;
}

/// Lines of one phase, in order.
class Lines {
 public:
  explicit Lines(Phase phase) : phase_(phase) {}

  /// Whether the lines that follow belong to a layer.
  void layers(bool layered) { layered_ = layered; }
  void add(Op op, std::string_view tensor, Kind kind, Width width, Granularity granularity,
           Inputs inputs, When when = kAlways) {
    lines_.push_back(
        {phase_, layered_, op, tensor, kind, width, granularity, when, std::move(inputs)});
  }
  /// Rows that only `ops` records.
  void rows(Op op, std::string_view tensor, Width width, Inputs inputs, When when = kAlways) {
    add(op, tensor, kRows, width, kOps, std::move(inputs), when);
  }
  /// Rows that `tensors` records too.
  void stream(Op op, std::string_view tensor, Width width, Inputs inputs, When when = kAlways) {
    add(op, tensor, kRows, width, kTensors, std::move(inputs), when);
  }
  /// A number in binary64 a row, which `tensors` records too.
  void stream64(Op op, std::string_view tensor, Inputs inputs) {
    add(op, tensor, kRows64, kOne, kTensors, std::move(inputs));
  }
  std::vector<EventSpec> take() { return std::move(lines_); }

 private:
  Phase phase_;
  bool layered_ = false;
  std::vector<EventSpec> lines_;
};

void add_attention(Lines& to, Phase f, const Input& x) {
  to.rows(kInputNorm, "y", kHidden, {x, weight("input_layernorm.weight")});
  to.rows(kInputNorm, "r", kOne, {x});
  const Input y = in(f, kInputNorm, "y");
  to.rows(kQkv, "q", kQueries,
          {y, weight("self_attn.q_proj.weight"), only(kBias, weight("self_attn.q_proj.bias"))});
  to.rows(kQkv, "k", kKeys,
          {y, weight("self_attn.k_proj.weight"), only(kBias, weight("self_attn.k_proj.bias"))});
  to.rows(kQkv, "v", kKeys,
          {y, weight("self_attn.v_proj.weight"), only(kBias, weight("self_attn.v_proj.bias"))});
  const Input q = in(f, kQkv, "q"), k = in(f, kQkv, "k");
  to.rows(kQkNorm, "q", kQueries, {q, weight("self_attn.q_norm.weight")}, kHeadNorms);
  to.rows(kQkNorm, "k", kKeys, {k, weight("self_attn.k_norm.weight")}, kHeadNorms);
  to.rows(kQkNorm, "q_r", kHeads, {q}, kHeadNorms);
  to.rows(kQkNorm, "k_r", kKvHeads, {k}, kHeadNorms);
  to.rows(kRotary, "q", kQueries,
          {only(kHeadNorms, in(f, kQkNorm, "q")), only(kNoHeadNorms, in(f, kQkv, "q"))});
  to.rows(kRotary, "k", kKeys,
          {only(kHeadNorms, in(f, kQkNorm, "k")), only(kNoHeadNorms, in(f, kQkv, "k"))});
  const Input query = in(f, kRotary, "q"), keys = in(f, kRotary, "k", kPrefix);
  to.rows(kAttention, "out", kQueries, {query, keys, in(f, kQkv, "v", kPrefix)});
  to.rows(kAttention, "lse", kHeads, {query, keys});
  to.rows(kOutput, "y", kHidden, {in(f, kAttention, "out"), x, weight("self_attn.o_proj.weight")});
}

/// The model's forward: a rollout runs the program of the training forward.
void add_model(Lines& to, Phase f) {
  to.stream(kEmbedding, "y", kHidden,
            {in(f, kBatch, "token"), weight("model.embed_tokens.weight", At::kNone)});
  to.layers(true);
  add_attention(to, f, in(f, kDown, "y", kRow, At::kBelow));
  const Input middle = in(f, kOutput, "y"), y = in(f, kPostNorm, "y");
  to.rows(kPostNorm, "y", kHidden, {middle, weight("post_attention_layernorm.weight")});
  to.rows(kPostNorm, "r", kOne, {middle});
  to.rows(kGateUp, "gate", kIntermediate, {y, weight("mlp.gate_proj.weight")});
  to.rows(kGateUp, "up", kIntermediate, {y, weight("mlp.up_proj.weight")});
  to.rows(kSwiGlu, "y", kIntermediate, {in(f, kGateUp, "gate"), in(f, kGateUp, "up")});
  to.stream(kDown, "y", kHidden, {in(f, kSwiGlu, "y"), middle, weight("mlp.down_proj.weight")});
  to.layers(false);
  const Input last = in(f, kDown, "y", kRow, At::kLast);
  to.stream(kFinalNorm, "y", kHidden, {last, weight("model.norm.weight", At::kNone)});
  to.rows(kFinalNorm, "r", kOne, {last});
}

std::vector<EventSpec> rollout_lines() {
  constexpr Phase f = Phase::kRollout;
  Lines to(f);
  to.add(kBatch, "token", kTokens, kOne, kSteps, {in(f, kSample, "token")});
  add_model(to, f);
  const Inputs drawn_from = with_head({in(f, kFinalNorm, "y", kPrevious)});
  to.add(kSample, "token", kTokens, kOne, kSteps, drawn_from);
  Inputs scored_from = drawn_from;
  scored_from.push_back(in(f, kSample, "token"));
  to.stream(kSample, "log_prob", kOne, scored_from);
  return to.take();
}

std::vector<EventSpec> forward_lines() {
  constexpr Phase f = Phase::kForward;
  Lines to(f);
  to.add(kBatch, "token", kTokens, kOne, kSteps, {});
  add_model(to, f);
  const Inputs inputs = with_head({in(f, kFinalNorm, "y", kPrevious), in(f, kBatch, "token")});
  to.stream(kLogProb, "log_prob", kOne, inputs);
  to.stream(kLogProb, "entropy", kOne, inputs);
  return to.take();
}

std::vector<EventSpec> objective_lines() {
  constexpr Phase f = Phase::kObjective;
  Lines to(f);
  const auto target = [&](std::string_view tensor, Reach reach = kRow) {
    return in(f, kTargets, tensor, reach);
  };
  to.stream(kTargets, "advantage", kOne, {});
  to.stream(kTargets, "old_log_prob", kOne, {});
  to.stream(kTargets, "ref_log_prob", kOne, {}, kReference);
  to.stream(kTargets, "rollout_log_prob", kOne, {}, kRolloutLogProbs);
  to.stream64(kTargets, "weight", {});
  to.add(kScale, "total_weight", kScalar, kOne, kSteps,
         {target("advantage", kAll), target("weight", kAll)});
  to.add(kScale, "scale", kInteger, kOne, kSteps, {in(f, kScale, "total_weight", kAll)});

  const Input log_prob = in(Phase::kForward, kLogProb, "log_prob");
  const Input entropy = in(Phase::kForward, kLogProb, "entropy");
  const Input ref = only(kReference, target("ref_log_prob"));
  const Inputs policy{log_prob, target("old_log_prob"), target("advantage"),
                      only(kRolloutLogProbs, target("rollout_log_prob"))};
  const auto and_also = [](Inputs inputs, const Inputs& more) {
    inputs.insert(inputs.end(), more.begin(), more.end());
    return inputs;
  };
  to.stream64(kTerms, "ratio", {log_prob, target("old_log_prob")});
  to.stream64(kTerms, "policy", policy);
  to.stream64(kTerms, "kl", {log_prob, ref});
  to.stream64(kTerms, "total", and_also(policy, {ref, entropy}));
  to.stream(kTerms, "c", kOne, and_also(policy, {ref, target("weight")}));
  to.stream(kTerms, "ce", kOne, {target("weight")});

  const auto sum = [&](std::string_view tensor, const Inputs& inputs) {
    to.add(kLoss, tensor, kScalar, kOne, kSteps, inputs);
  };
  const Input weights = target("weight", kAll);
  sum("policy", {in(f, kTerms, "policy", kAll), weights});
  sum("entropy", {in(Phase::kForward, kLogProb, "entropy", kAll), weights});
  sum("kl", {in(f, kTerms, "kl", kAll), weights});
  sum("total", {in(f, kTerms, "total", kAll), weights});
  Inputs clipped = policy;
  for (Input& input : clipped) input.reach = kAll;
  clipped.push_back(weights);
  sum("clip_fraction", clipped);
  return to.take();
}

void add_attention_backward(Lines& to, const Input& x) {
  constexpr Phase f = Phase::kForward, b = Phase::kBackward;
  to.rows(kOutput, "dx", kQueries, {in(b, kPostNorm, "dx"), weight("self_attn.o_proj.weight")});
  to.rows(kAttention, "delta", kHeads, {in(b, kOutput, "dx"), in(f, kAttention, "out")});
  const Inputs of_query{in(f, kRotary, "q"),       in(f, kRotary, "k", kPrefix),
                        in(f, kQkv, "v", kPrefix), in(b, kOutput, "dx"),
                        in(f, kAttention, "lse"),  in(b, kAttention, "delta")};
  const Inputs of_key{in(f, kRotary, "q", kSuffix),
                      in(f, kRotary, "k"),
                      in(f, kQkv, "v"),
                      in(b, kOutput, "dx", kSuffix),
                      in(f, kAttention, "lse", kSuffix),
                      in(b, kAttention, "delta", kSuffix)};
  to.rows(kAttention, "dq", kQueries, of_query);
  to.rows(kAttention, "dk", kKeys, of_key);
  to.rows(kAttention, "dv", kKeys, of_key);
  const Input dq = in(b, kRotary, "dq"), dk = in(b, kRotary, "dk");
  to.rows(kRotary, "dq", kQueries, {in(b, kAttention, "dq")});
  to.rows(kRotary, "dk", kKeys, {in(b, kAttention, "dk")});
  to.rows(kQkNorm, "dq", kQueries,
          {dq, in(f, kQkv, "q"), in(f, kQkNorm, "q_r"), weight("self_attn.q_norm.weight")},
          kHeadNorms);
  to.rows(kQkNorm, "dk", kKeys,
          {dk, in(f, kQkv, "k"), in(f, kQkNorm, "k_r"), weight("self_attn.k_norm.weight")},
          kHeadNorms);
  to.rows(kQkv, "dx", kHidden,
          {only(kHeadNorms, in(b, kQkNorm, "dq")), only(kHeadNorms, in(b, kQkNorm, "dk")),
           only(kNoHeadNorms, dq), only(kNoHeadNorms, dk), in(b, kAttention, "dv"),
           weight("self_attn.q_proj.weight"), weight("self_attn.k_proj.weight"),
           weight("self_attn.v_proj.weight")});
  to.stream(kInputNorm, "dx", kHidden,
            {in(b, kQkv, "dx"), in(b, kPostNorm, "dx"), x, in(f, kInputNorm, "r"),
             weight("input_layernorm.weight")});
}

std::vector<EventSpec> backward_lines() {
  constexpr Phase f = Phase::kForward, o = Phase::kObjective, b = Phase::kBackward;
  Lines to(b);
  to.stream(
      kLogProb, "dx", kHidden,
      with_head({in(o, kTerms, "c", kNext), in(o, kTerms, "ce", kNext), in(f, kFinalNorm, "y"),
                 in(f, kLogProb, "entropy", kNext), in(f, kBatch, "token", kNext)}));
  to.stream(kFinalNorm, "dx", kHidden,
            {in(b, kLogProb, "dx"), in(f, kDown, "y", kRow, At::kLast), in(f, kFinalNorm, "r"),
             weight("model.norm.weight", At::kNone)});
  to.layers(true);
  const Input dout = in(b, kInputNorm, "dx", kRow, At::kAbove);
  to.rows(kDown, "dx", kIntermediate, {dout, weight("mlp.down_proj.weight")});
  const Inputs gated{in(b, kDown, "dx"), in(f, kGateUp, "gate"), in(f, kGateUp, "up")};
  to.rows(kSwiGlu, "dgate", kIntermediate, gated);
  to.rows(kSwiGlu, "dup", kIntermediate, gated);
  to.rows(kGateUp, "dx", kHidden,
          {in(b, kSwiGlu, "dgate"), in(b, kSwiGlu, "dup"), weight("mlp.gate_proj.weight"),
           weight("mlp.up_proj.weight")});
  to.rows(kPostNorm, "dx", kHidden,
          {in(b, kGateUp, "dx"), dout, in(f, kOutput, "y"), in(f, kPostNorm, "r"),
           weight("post_attention_layernorm.weight")});
  add_attention_backward(to, in(f, kDown, "y", kRow, At::kBelow));
  return to.take();
}

/// A parameter and the values that its gradient sums up.
struct GradientLine {
  std::string_view tensor;
  bool layered;
  Width width;  // the axis along which its rows are cut; kHidden where they never are
  When when;
  Inputs inputs;
};

std::vector<GradientLine> gradient_lines() {
  constexpr Phase f = Phase::kForward, o = Phase::kObjective, b = Phase::kBackward;
  const auto each = [](Phase phase, Op op, std::string_view tensor, At at = At::kHere) {
    return in(phase, op, tensor, kAll, at);
  };
  const Input x = each(f, kDown, "y", At::kBelow), dout = each(b, kInputNorm, "dx", At::kAbove);
  const Input y = each(f, kInputNorm, "y"), y2 = each(f, kPostNorm, "y");
  const auto fused = [&](std::string_view tensor) {
    return Inputs{only(kHeadNorms, each(b, kQkNorm, tensor)),
                  only(kNoHeadNorms, each(b, kRotary, tensor))};
  };
  const auto times = [](Inputs inputs, const Input& other) {
    inputs.push_back(other);
    return inputs;
  };
  const Inputs head =
      with_head({each(f, kFinalNorm, "y"), each(o, kTerms, "c"), each(o, kTerms, "ce"),
                 each(f, kLogProb, "entropy"), each(f, kBatch, "token")});
  Inputs embedding{each(b, kInputNorm, "dx", At::kFirst), each(f, kBatch, "token")};
  for (const Input& input : head) {
    if (input.when != kUntied) embedding.push_back(only(kTied, input));
  }
  const Inputs dv{each(b, kAttention, "dv")};
  return {
      {"model.embed_tokens.weight", false, kHidden, kAlways, embedding},
      {"input_layernorm.weight",
       true,
       kHidden,
       kAlways,
       {each(b, kQkv, "dx"), x, each(f, kInputNorm, "r")}},
      {"self_attn.q_proj.weight", true, kHidden, kAlways, times(fused("dq"), y)},
      {"self_attn.k_proj.weight", true, kHidden, kAlways, times(fused("dk"), y)},
      {"self_attn.v_proj.weight", true, kHidden, kAlways, times(dv, y)},
      {"self_attn.q_proj.bias", true, kQueries, kBias, fused("dq")},
      {"self_attn.k_proj.bias", true, kKeys, kBias, fused("dk")},
      {"self_attn.v_proj.bias", true, kKeys, kBias, dv},
      {"self_attn.q_norm.weight",
       true,
       kHidden,
       kHeadNorms,
       {each(b, kRotary, "dq"), each(f, kQkv, "q"), each(f, kQkNorm, "q_r")}},
      {"self_attn.k_norm.weight",
       true,
       kHidden,
       kHeadNorms,
       {each(b, kRotary, "dk"), each(f, kQkv, "k"), each(f, kQkNorm, "k_r")}},
      {"self_attn.o_proj.weight",
       true,
       kQueries,
       kAlways,
       {each(b, kPostNorm, "dx"), each(f, kAttention, "out")}},
      {"post_attention_layernorm.weight",
       true,
       kHidden,
       kAlways,
       {each(b, kGateUp, "dx"), each(f, kOutput, "y"), each(f, kPostNorm, "r")}},
      {"mlp.gate_proj.weight", true, kHidden, kAlways, {each(b, kSwiGlu, "dgate"), y2}},
      {"mlp.up_proj.weight", true, kHidden, kAlways, {each(b, kSwiGlu, "dup"), y2}},
      {"mlp.down_proj.weight", true, kIntermediate, kAlways, {dout, each(f, kSwiGlu, "y")}},
      {"model.norm.weight",
       false,
       kHidden,
       kAlways,
       {each(b, kLogProb, "dx"), each(f, kDown, "y", At::kLast), each(f, kFinalNorm, "r")}},
      {"lm_head.weight", false, kHidden, kUntied, head},
  };
}

std::vector<EventSpec> reduce_lines(const std::vector<GradientLine>& gradients) {
  Lines to(Phase::kReduce);
  const Input scale = in(Phase::kObjective, kScale, "scale", kAll, At::kNone);
  for (const GradientLine& g : gradients) {
    Inputs inputs = g.inputs;
    inputs.push_back(scale);
    to.layers(g.layered);
    to.add(kGradient, g.tensor, kParameterSum, g.width, kSteps, inputs, g.when);
  }
  return to.take();
}

std::vector<EventSpec> clip_lines() {
  Lines to(Phase::kClip);
  to.add(kClip, "norm", kScalar, kOne, kSteps,
         {in(Phase::kReduce, kGradient, "", kAll), in(Phase::kObjective, kScale, "scale", kAll)});
  to.add(kClip, "scale", kScalar32, kOne, kSteps, {in(Phase::kClip, kClip, "norm", kAll)});
  return to.take();
}

std::vector<EventSpec> optimizer_lines(const std::vector<GradientLine>& gradients) {
  Lines to(Phase::kOptimizer);
  for (const GradientLine& g : gradients) {
    const auto before = [&](Op op) {
      return Input{Phase::kOptimizer, op, g.tensor, kAll, At::kHere, kAlways, true};
    };
    const Inputs step{in(Phase::kReduce, kGradient, g.tensor, kAll),
                      in(Phase::kObjective, kScale, "scale", kAll, At::kNone),
                      in(Phase::kClip, kClip, "scale", kAll, At::kNone)};
    const auto add = [&](Op op, const Inputs& state) {
      Inputs inputs = step;
      inputs.insert(inputs.end(), state.begin(), state.end());
      to.add(op, g.tensor, kParameter, g.width, kSteps, inputs, g.when);
    };
    to.layers(g.layered);
    add(kExpAvg, {before(kExpAvg)});
    add(kExpAvgSq, {before(kExpAvgSq)});
    add(kWeight, {before(kExpAvg), before(kExpAvgSq), before(kWeight)});
  }
  return to.take();
}

}  // namespace

std::vector<EventSpec> make_event_lines() {
  const std::vector<GradientLine> gradients = gradient_lines();
  std::vector<EventSpec> out;
  for (std::vector<EventSpec> lines :
       {rollout_lines(), forward_lines(), objective_lines(), backward_lines(),
        reduce_lines(gradients), clip_lines(), optimizer_lines(gradients)}) {
    out.insert(out.end(), lines.begin(), lines.end());
  }
  return out;
}

}  // namespace rlreplay::engine
