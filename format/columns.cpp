#include "format/columns.h"

#include <algorithm>

namespace rlreplay::format {
namespace {

constexpr KnownDataset kTable[] = {
    {"rollout", "sample_id", "u64", "S",
     "whose: the sample's own number, and of all samples of one prompt the same",
     Values::kSampleIds},
    {"rollout", "group_id", "u64", "S", ""},
    {"rollout", "trajectory_id", "u64", "S",
     "samples of one trajectory (the calls of an agent, a conversation that was compacted) count "
     "as one where samples are counted; one without is its own"},
    {"rollout", "offsets", "u64", "S+1", "sample s is tokens [offsets[s], offsets[s+1])",
     Values::kOffsets, 'T'},
    {"rollout", "prompt_length", "u32", "S", "tokens of the prompt", Values::kPromptLengths},
    {"rollout", "tokens", "i32 i64", "T", "ids of a vocabulary", Values::kTokens},
    {"rollout", "log_probs", "f32 f64", "T",
     "the sampler's; +0 for prompt tokens; f64 where f32 is not exact"},
    {"rollout", "nucleus_offsets", "u64", "S+1",
     "ids that top-p left for each token: sample s has those from nucleus_offsets[s], "
     "`nucleus_size` of them for one token after the other, 0 for prompt tokens",
     Values::kOffsets, 'N', "nucleus"},
    {"rollout", "nucleus_size", "u32", "T", "", Values::kAny, 0, "nucleus"},
    {"rollout", "nucleus", "i32", "N", "", Values::kTokens},
    {"rollout", "loss_mask", "u8", "T", "0 or 1; 0 for prompt tokens", Values::kMask},
    {"rollout", "removed", "u8", "S",
     "1: taken out of training (the frameworks' `remove_sample`): its mask is zeros, whatever "
     "`loss_mask` says; 0, or no value: it was not. Absent where no sample was",
     Values::kMask},
    {"rollout", "rewards", "f64", "S", "as the reward function gave them"},
    {"rollout", "reward_components", "f64", "S K",
     "named by `columns`; of a framework's rewards, which are dicts, a NaN too where one has no "
     "number of that name",
     Values::kNamed},
    {"rollout", "finish", "u8", "S", "0 stop, 1 length, 2 aborted, 3 failed, 255 not known",
     Values::kFinish},
    {"rollout", "version_offsets", "u64", "S+1",
     "versions of the weights: from token `version_starts` of the sample on, `versions`. A run of "
     "this project counts them in optimizer steps taken before",
     Values::kOffsets, 'V', "versions"},
    {"rollout", "versions", "i64", "V", ""},
    {"rollout", "version_starts", "u32", "V", ""},
    {"rollout", "roles", "u8", "T",
     "who wrote the token: 0 prompt, 1 response, 2 tool, 3 system, 255 not known", Values::kRoles},
    {"rollout", "call_offsets", "u64", "S+1",
     "the calls of an engine that wrote the sample, in their order: tokens `call_first` and those "
     "after it, `call_length` of them, behind those of the call before. All three or none; the "
     "next five only with them",
     Values::kOffsets, 'C', "calls"},
    {"rollout", "call_first", "u32", "C", "", Values::kCalls, 0, "calls"},
    {"rollout", "call_length", "u32", "C", "", Values::kAny, 0, "calls"},
    {"rollout", "call_finish", "u8", "C", "as `finish`", Values::kFinish, 0, "calls"},
    {"rollout", "call_truncated", "u8", "C",
     "whether `log_probs` of its tokens are of the distribution that top-k, top-p and min-p left "
     "(1), or of the whole one (0); 255 not known",
     Values::kTruth, 0, "calls"},
    {"rollout", "call_version", "i64", "C", "of the weights", Values::kAny, 0, "calls"},
    {"rollout", "call_seed", "i64", "C", "of the draws", Values::kAny, 0, "calls"},
    {"rollout", "call_numbers", "f64", "C J",
     "named by `columns`: `temperature`, `top_p`, `top_k`, `min_p`, `latency` (seconds), `reward`, "
     "and others; a NaN was not recorded",
     Values::kNamed, 0, "calls"},
    {"rollout", "prompt_text", "u8", "P", "UTF-8", Values::kText},
    {"rollout", "prompt_text_offsets", "u64", "S+1", "", Values::kOffsets, 'P', "prompt_text"},
    {"rollout", "response_text", "u8", "R", "UTF-8", Values::kText},
    {"rollout", "response_text_offsets", "u64", "S+1", "", Values::kOffsets, 'R', "response_text"},
    {"rollout", "label_text", "u8", "L", "UTF-8, what the reward was computed from", Values::kText},
    {"rollout", "label_text_offsets", "u64", "S+1", "", Values::kOffsets, 'L', "label_text"},
    {"rollout", "experts", "u8 u16", "T M E", "chosen experts by token, layer and slot"},
    {"rollout", "expert_layers", "u32", "M",
     "the number in the model of each layer that has a router. This and the next two mean nothing "
     "without `experts`",
     Values::kAny, 0, "experts"},
    {"rollout", "expert_gates", "f32", "T M E",
     "the weight that the expert's output got; a NaN was not recorded", Values::kAny, 0, "experts"},
    {"rollout", "expert_recorded", "u8", "T",
     "whether the token's choices were recorded (1); what stands there of others is 0 and means "
     "nothing. Absent where all were",
     Values::kMask, 0, "experts"},
    {"train", "coordinates", "u32", "5 2", "*Parts*; in groups of `rollout` and `weights` too",
     Values::kCoordinates},
    {"train", "sample_id", "u64", "S", "as above; joins the rollout", Values::kSampleIds},
    {"train", "offsets", "u64", "S+1", "", Values::kOffsets, 'T'},
    {"train", "slice_offsets", "u64", "S+1", "*Parts*", Values::kOffsets, 'C'},
    {"train", "slices", "u64", "C 2", "", Values::kSlices},
    {"train", "lengths", "u64", "S", ""},
    {"train", "tokens", "i32", "T", "where the trainer's own were recorded", Values::kTokens},
    {"train", "prompt_length", "u32", "S", "", Values::kPromptLengths},
    {"train", "micro_batch", "u32", "S", "in which of the rank's the sample was packed"},
    {"train", "loss_mask", "u8", "T", "0 or 1; 0 for prompt tokens", Values::kMask},
    {"train", "rewards", "f64", "S", "as the trainer shaped them"},
    {"train", "trajectory_id", "u64", "S",
     "as above; unmasked tokens of the whole trajectory, where the trainer's count is not that of "
     "the step's samples"},
    {"train", "trajectory_tokens", "u64", "S", ""},
    {"train", "token_weights", "f64", "T", "the weight of a token in the loss"},
    {"train", "log_probs", "f32 f64", "T",
     "of the policy in this step's forward pass, of the token at that place"},
    {"train", "old_log_probs", "f32 f64", "T",
     "of the policy before the first update with this rollout"},
    {"train", "ref_log_probs", "f32 f64", "T", "of other models"},
    {"train", "teacher_log_probs", "f32 f64", "T", ""},
    {"train", "rollout_log_probs", "f32 f64", "T", "the sampler's, as the trainer got them"},
    {"train", "entropy", "f32 f64", "T",
     "of the policy's distributions, and of the reference model's"},
    {"train", "ref_entropy", "f32 f64", "T", ""},
    {"train", "advantages", "f32 f64", "T",
     "what the loss weighed a token by, and what `values` estimate"},
    {"train", "returns", "f32 f64", "T", ""},
    {"train", "values", "f32 f64", "T",
     "a critic's, before the first update with this rollout and in this step's forward pass"},
    {"train", "current_values", "f32 f64", "T", ""},
    {"train", "kl", "f32 f64", "T", "to the reference model; of on-policy distillation"},
    {"train", "reverse_kl", "f32 f64", "T", ""},
    {"train", "policy_kl", "f32 f64", "T",
     "old less current log-probability as the loss took it; the policy term of the loss before its "
     "reduction (in dumps of Miles, before OPSM and TIS)"},
    {"train", "policy_loss", "f32 f64", "T", ""},
    {"train", "scalars", "f64", "N",
     "named by `columns`: `loss`, `grad_norm`, `lr`, ...; `trajectories` where the trainer counted "
     "another number than the step's samples have",
     Values::kNamed},
    {"train", "events/tensors", "u8", "x",
     "for each row `NAME DTYPE DIMS` and a line feed; NAME has 1 to 1024 bytes without a space or "
     "control characters; DTYPE of section 3's table; DIMS as the digest takes them, without the "
     "number of tokens, at most 8 and none 0, joined by commas, `-` where there are none",
     Values::kText},
    {"train", "events/rank", "u32", "e", "the rank that holds the tensor"},
    {"train", "events/rows", "u64", "e",
     "its rows: tokens, each of the product of DIMS elements; else the product of DIMS but the "
     "last, 1 for vectors and scalars"},
    {"train", "events/digest", "u8", "e 16",
     "the digest's bytes, the most significant first; of somebody else's table whatever names the "
     "value: equal where the values are"},
    {"train", "events/nonfinite", "u64", "e 4",
     "elements that are no finite numbers, and sample, row (of a tensor by token: position) and "
     "column of the first; zeros where there are none"},
    {"train", "events/stats", "f64", "e 4",
     "smallest, largest, mean and root mean square of the finite elements; NaN where there are "
     "none. Absent where it was not asked for"},
    {"train", "events/row_set", "i32", "e",
     "which set of tokens its rows are, counted from 0; -1 for rows of a parameter"},
    {"train", "events/row_set_offsets", "u64", "p+1", "set p is runs [offsets[p], offsets[p+1])",
     Values::kOffsets, 'r'},
    {"train", "events/run_sample", "u64", "r",
     "a run of consecutive positions of a sample; the runs of a set ascend by sample, then "
     "position"},
    {"train", "events/run_position", "u64", "r", ""},
    {"train", "events/run_count", "u64", "r", ""},
    {"train", "events/row_digest_offsets", "u64", "e+1",
     "rows with row digests have as many as rows here", Values::kOffsets, 'b'},
    {"train", "events/row_digest", "u8", "b 16", "the sum of the digests of a row's blocks"},
    {"train", "events/value_start", "u64", "e",
     "the tensor's elements, row-major, are `value_count` elements of `events/values_DTYPE` from "
     "`value_start` on; 0 elements: not recorded"},
    {"train", "events/value_count", "u64", "e", ""},
    {"train", "events/values_f32", "f32", "f", "for each dtype of section 3's table"},
    {"train", "events/values_f64", "f64", "d", ""},
    {"train", "events/values_i32", "i32", "i", ""},
    {"train", "events/values_i64", "i64", "l", ""},
    {"train", "events/values_bool", "bool", "a", ""},
    {"train", "events/values_i8", "i8", "c", ""},
    {"train", "events/values_i16", "i16", "g", ""},
    {"train", "events/values_u8", "u8", "h", ""},
    {"train", "events/values_u16", "u16", "j", ""},
    {"train", "events/values_u32", "u32", "k", ""},
    {"train", "events/values_u64", "u64", "m", ""},
    {"train", "events/values_f16", "f16", "n", ""},
    {"train", "events/values_bf16", "bf16", "o", ""},
    {"train", "events/values_f8e4m3", "f8e4m3", "u", ""},
    {"train", "events/values_f8e5m2", "f8e5m2", "s", ""},
    {"train", "events/values_e8m0", "e8m0", "t", ""},
    {"train", "events/parent_offsets", "u64", "e+1",
     "row e is computed from the rows `parents` from `parent_offsets[e]` on, all before it: a "
     "difference in one of them explains one in e. None: it is given. Without these two any row "
     "may be computed from all before it",
     Values::kOffsets, 'q'},
    {"train", "events/parents", "u64", "q", ""},
    {"x-slime", "pickle", "u8", "n",
     "the file's object as a pickle of protocol 2; its attribute `file` is the file's name: a "
     "relative path without `.` and `..`, in printable characters, to which the unit's path "
     "belongs as in this example"},
    {"x-slime", "records", "u8", "m", "the content of its tensors, one behind the other"},
    {"x-slime", "record_offsets", "u64", "r+1",
     "tensor i of the pickle's storages has the bytes from `record_offsets[i]` on",
     Values::kOffsets, 'm'},
    {"rollout", "coordinates", "u32", "5 2", kElsewhere, Values::kCoordinates},
    {"weights", "coordinates", "u32", "5 2", kElsewhere, Values::kCoordinates},
    {"x-inputs", "sample_id", "u64", "S", kElsewhere, Values::kSampleIds},
    {"x-findings", "text", "u8", "n", kElsewhere},
};

/// Which samples have a value: NAME_present of any column NAME.
constexpr KnownDataset kPresence = {"", "", "u8", "S", kElsewhere, Values::kMask};

/// Whether a row is that of a dataset. Events of the rollout phase have the tables of `train` in a
/// rollout unit too, and kept files of any framework those of `x-slime`.
bool applies(const KnownDataset& known, std::string_view kind, std::string_view name) {
  if (kind == "x-miles" || kind == "x-relax" || kind == "x-unknown") kind = "x-slime";
  const bool events = name.starts_with("events/") && (kind == "rollout" || kind == "train");
  return known.name == name && (known.kind == kind || events);
}

}  // namespace

std::span<const KnownDataset> known_datasets() { return kTable; }

const KnownDataset* find_known(std::string_view kind, std::string_view name) {
  const bool samples = kind == "rollout" || kind == "train";
  if (samples && name.ends_with("_present")) return &kPresence;
  const auto it = std::find_if(std::begin(kTable), std::end(kTable),
                               [&](const auto& k) { return applies(k, kind, name); });
  return it == std::end(kTable) ? nullptr : it;
}

std::string offsets_for(std::string_view kind, char letter) {
  for (const KnownDataset& known : known_datasets()) {
    if (known.kind == kind && known.values == Values::kOffsets && known.total == letter) {
      return std::string(known.name);
    }
  }
  return {};
}

size_t dimensions_of(const KnownDataset& row) {
  return row.shape.empty() ? 0 : static_cast<size_t>(std::ranges::count(row.shape, ' ')) + 1;
}

std::string other_dtype(DType found, std::string_view expected) {
  return "its dtype is " + std::string(to_string(found)) + ", not " + std::string(expected);
}

std::string other_dimensions(const KnownDataset& row) {
  return "it has another number of dimensions than [" + std::string(row.shape) + "]";
}

}  // namespace rlreplay::format
