#include "tests/engine/event_document.h"

#include "src/events/table.h"

namespace rlreplay::engine::test {
namespace {

constexpr std::string_view kIntroduction = R"(# Events

What a step lets others see, and so what can be recorded, compared and disturbed. The table is
closed: an operation that is not here is not seen, and a value that is never stored (a softmax, a
logit) is no event. This page is printed from `src/events/lines.cpp` by
`build/release/tests/engine/print_event_document`; a test holds the two equal.

An event is written `ROLLOUT.STEP/PHASE/LAYER/OP/TENSOR`, `3.0/backward/1/down/dx` for one: step 0 of
rollout 3, layer 1 counted from 0. LAYER is `-` where there is none. The tensor of a parameter is its
name on disk, `3.0/reduce/1/gradient/model.layers.1.mlp.down_proj.weight`. What a rollout emits belongs
to its first step.

Rules:

- *Canonical order* is the order of this page: phases in order, in a phase the lines before the
  layers, then every line of a layer, layer by layer (ascending, in the backward descending), then the
  lines after the layers.
- Storage is undone: q, k and v, gate and up, are tensors of their own wherever they lie. A forward
  that is recomputed for the backward emits once, the first time: with `--recompute`, a difference that
  is planted inside a layer's forward goes on to the layers after it, but that layer's own backward
  works on the recomputed, undisturbed values. A backward that is repeated because a gradient did not
  fit its exact sum counts as the one that fitted.
- Every value is shown before anything reads it. An operation that has several outputs computes all of
  them from its inputs: another output of the same operation is no input.
- A tensor with a row per token has its rows by sample id, then by position in the sample, prompt
  included. What is told of a token of the response (log-probability, advantage, loss) stands at that
  token's own position; the row of the model that predicts it is the one before. Such a tensor has rows
  for response tokens only, and an index into it counts these.
- A rollout's last token is drawn but goes through the model no more: the phase `rollout` has one row
  less for each sample than `forward`, and the same bits in all others.

*Values*: T tokens, C hidden size, F intermediate size, H query heads, G kv heads, D head size. *From*:
the first of `steps`, `tensors`, `ops` at which it is recorded. *Computed from*: events of the same
phase and layer are named by operation and tensor; `w:` is a weight and `state:` a moment as the step
before left it (`w:` of a layer lacks its prefix `model.layers.LAYER.`). A row depends on the same row
of an input unless it says: (prefix) all rows of the sample up to it, (suffix) from it on, (previous)
and (next) the token before and after, (all) all rows.
)";

std::string_view width_text(Width width) {
  switch (width) {
    case Width::kOne:
      return "";
    case Width::kHidden:
      return "C";
    case Width::kQueries:
      return "H D";
    case Width::kKeys:
      return "G D";
    case Width::kHeads:
      return "H";
    case Width::kKvHeads:
      return "G";
    case Width::kIntermediate:
      return "F";
  }
  return "?";
}

std::string values_text(const EventSpec& spec) {
  std::string out(to_string(dtype_of(spec.kind)));
  if (is_parameter(spec.kind)) return out + ", the parameter's shape";
  if (!is_per_token(spec.kind)) return out;
  const std::string_view width = width_text(spec.width);
  return out + " [T" + (width.empty() ? "" : ", " + std::string(width)) + "]";
}

std::string_view when_text(When when) {
  switch (when) {
    case When::kAlways:
      return "";
    case When::kHeadNorms:
      return "with query and key norms";
    case When::kNoHeadNorms:
      return "without query and key norms";
    case When::kBias:
      return "with biases";
    case When::kTied:
      return "with tied embeddings";
    case When::kUntied:
      return "without tied embeddings";
    case When::kReference:
      return "with a reference model";
    case When::kRolloutLogProbs:
      return "where the samples carry the rollout's";
  }
  return "?";
}

std::string_view reach_text(Reach reach) {
  switch (reach) {
    case Reach::kRow:
      return "";
    case Reach::kPrefix:
      return "prefix";
    case Reach::kSuffix:
      return "suffix";
    case Reach::kPrevious:
      return "previous";
    case Reach::kNext:
      return "next";
    case Reach::kAll:
      return "all";
  }
  return "?";
}

std::string_view place_text(At at) {
  switch (at) {
    case At::kHere:
    case At::kNone:
      return "";
    case At::kBelow:
      return " of the layer below, or embedding/y";
    case At::kAbove:
      return " of the layer above, or final_norm/dx";
    case At::kFirst:
      return " of the first layer";
    case At::kLast:
      return " of the last layer";
  }
  return "?";
}

std::string input_text(const EventSpec& spec, const Input& input) {
  const std::string tensor(input.tensor);
  const bool own = tensor == spec.tensor && (input.before || input.op == Op::kGradient);
  std::string out;
  if (input.before && input.op == Op::kWeight) {
    out = "w:" + (own ? "the parameter" : tensor);
  } else if (input.before) {
    out = "state:" + std::string(name(input.op));
  } else {
    if (input.phase != spec.phase) out = std::string(name(input.phase)) + " ";
    out.append(name(input.op)).append("/");
    out.append(own ? "the parameter" : tensor.empty() ? "every parameter" : tensor);
    out.append(place_text(input.at));
    const bool whole = !is_per_token(spec.kind) && input.reach == Reach::kAll;
    if (input.reach != Reach::kRow && !whole) {
      out.append(" (").append(reach_text(input.reach)).append(")");
    }
  }
  if (input.when != When::kAlways && input.when != spec.when) {
    out.append(" ").append(when_text(input.when));
  }
  return out;
}

std::string line_text(const EventSpec& spec) {
  std::string out = spec.layered ? "| LAYER | " : "| - | ";
  out.append(name(spec.op)).append("/").append(spec.tensor);
  out.append(" | ").append(values_text(spec));
  if (spec.when != When::kAlways) out.append("; ").append(when_text(spec.when));
  out.append(" | ").append(name(spec.granularity)).append(" | ");
  std::string inputs;
  for (const Input& input : spec.inputs) {
    inputs.append(inputs.empty() ? "" : "; ").append(input_text(spec, input));
  }
  return out + (inputs.empty() ? "given" : inputs) + " |\n";
}

}  // namespace

std::string event_document() {
  std::string out(kIntroduction);
  const EventSpec* last = nullptr;
  for (const EventSpec& spec : event_table()) {
    if (last == nullptr || last->phase != spec.phase) {
      out.append("\n## ").append(name(spec.phase)).append("\n\n");
      out.append("| layer | event | values | from | computed from |\n|---|---|---|---|---|\n");
    }
    out += line_text(spec);
    last = &spec;
  }
  return out;
}

}  // namespace rlreplay::engine::test
