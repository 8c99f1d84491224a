#include "format/tables.h"

#include <algorithm>

namespace rlreplay::format {
namespace {

constexpr KnownDataset kTable[] = {
    {"rollout", "sample_id", "u64", "S", Values::kSampleIds},
    {"rollout", "group_id", "u64", "S"},
    {"rollout", "trajectory_id", "u64", "S"},
    {"rollout", "offsets", "u64", "S+1", Values::kOffsets, 'T'},
    {"rollout", "prompt_length", "u32", "S", Values::kPromptLengths},
    {"rollout", "tokens", "i32 i64", "T", Values::kTokens},
    {"rollout", "log_probs", "f32 f64", "T"},
    {"rollout", "nucleus_offsets", "u64", "S+1", Values::kOffsets, 'N'},
    {"rollout", "nucleus_size", "u32", "T"},
    {"rollout", "nucleus", "i32", "N", Values::kTokens},
    {"rollout", "loss_mask", "u8", "T", Values::kMask},
    {"rollout", "removed", "u8", "S", Values::kMask},
    {"rollout", "rewards", "f64", "S"},
    {"rollout", "reward_components", "f64", "S K", Values::kNamed},
    {"rollout", "finish", "u8", "S", Values::kFinish},
    {"rollout", "version_offsets", "u64", "S+1", Values::kOffsets, 'V'},
    {"rollout", "versions", "i64", "V"},
    {"rollout", "version_starts", "u32", "V"},
    {"rollout", "prompt_text_offsets", "u64", "S+1", Values::kOffsets, 'P'},
    {"rollout", "prompt_text", "u8", "P", Values::kText},
    {"rollout", "response_text_offsets", "u64", "S+1", Values::kOffsets, 'R'},
    {"rollout", "response_text", "u8", "R", Values::kText},
    {"rollout", "label_text_offsets", "u64", "S+1", Values::kOffsets, 'L'},
    {"rollout", "label_text", "u8", "L", Values::kText},
    {"rollout", "roles", "u8", "T", Values::kRoles},
    {"rollout", "call_offsets", "u64", "S+1", Values::kOffsets, 'C'},
    {"rollout", "call_first", "u32", "C", Values::kCalls},
    {"rollout", "call_length", "u32", "C"},
    {"rollout", "call_finish", "u8", "C", Values::kFinish},
    {"rollout", "call_truncated", "u8", "C", Values::kTruth},
    {"rollout", "call_version", "i64", "C"},
    {"rollout", "call_seed", "i64", "C"},
    {"rollout", "call_numbers", "f64", "C J", Values::kNamed},
    {"rollout", "experts", "u8 u16", "T M E"},
    {"rollout", "coordinates", "u32", "5 2", Values::kCoordinates},
    {"weights", "coordinates", "u32", "5 2", Values::kCoordinates},
    {"train", "sample_id", "u64", "S", Values::kSampleIds},
    {"train", "offsets", "u64", "S+1", Values::kOffsets, 'T'},
    {"train", "slice_offsets", "u64", "S+1", Values::kOffsets, 'C'},
    {"train", "slices", "u64", "C 2", Values::kSlices},
    {"train", "lengths", "u64", "S"},
    {"train", "coordinates", "u32", "5 2", Values::kCoordinates},
    {"train", "tokens", "i32", "T", Values::kTokens},
    {"train", "prompt_length", "u32", "S", Values::kPromptLengths},
    {"train", "micro_batch", "u32", "S"},
    {"train", "loss_mask", "u8", "T", Values::kMask},
    {"train", "rewards", "f64", "S"},
    {"train", "trajectory_id", "u64", "S"},
    {"train", "trajectory_tokens", "u64", "S"},
    {"train", "token_weights", "f64", "T"},
    {"train", "log_probs", "f32 f64", "T"},
    {"train", "old_log_probs", "f32 f64", "T"},
    {"train", "ref_log_probs", "f32 f64", "T"},
    {"train", "teacher_log_probs", "f32 f64", "T"},
    {"train", "rollout_log_probs", "f32 f64", "T"},
    {"train", "entropy", "f32 f64", "T"},
    {"train", "ref_entropy", "f32 f64", "T"},
    {"train", "advantages", "f32 f64", "T"},
    {"train", "returns", "f32 f64", "T"},
    {"train", "values", "f32 f64", "T"},
    {"train", "current_values", "f32 f64", "T"},
    {"train", "kl", "f32 f64", "T"},
    {"train", "reverse_kl", "f32 f64", "T"},
    {"train", "policy_kl", "f32 f64", "T"},
    {"train", "policy_loss", "f32 f64", "T"},
    {"train", "scalars", "f64", "N", Values::kNamed},
    {"train", "events/tensors", "u8", "x", Values::kText},
    {"train", "events/rank", "u32", "e"},
    {"train", "events/rows", "u64", "e"},
    {"train", "events/digest", "u8", "e 16"},
    {"train", "events/nonfinite", "u64", "e 4"},
    {"train", "events/stats", "f64", "e 4"},
    {"train", "events/row_set", "i32", "e"},
    {"train", "events/row_set_offsets", "u64", "p+1", Values::kOffsets, 'r'},
    {"train", "events/run_sample", "u64", "r"},
    {"train", "events/run_position", "u64", "r"},
    {"train", "events/run_count", "u64", "r"},
    {"train", "events/row_digest_offsets", "u64", "e+1", Values::kOffsets, 'b'},
    {"train", "events/row_digest", "u8", "b 16"},
    {"train", "events/value_start", "u64", "e"},
    {"train", "events/value_count", "u64", "e"},
    {"train", "events/values_f32", "f32", "f"},
    {"train", "events/values_f64", "f64", "d"},
    {"train", "events/values_i32", "i32", "i"},
    {"train", "events/values_i64", "i64", "l"},
    {"train", "events/parent_offsets", "u64", "e+1", Values::kOffsets, 'u'},
    {"train", "events/parents", "u64", "u"},
    {"train", "events/values_bool", "bool", "a"},
    {"train", "events/values_i8", "i8", "c"},
    {"train", "events/values_i16", "i16", "g"},
    {"train", "events/values_u8", "u8", "h"},
    {"train", "events/values_u16", "u16", "j"},
    {"train", "events/values_u32", "u32", "k"},
    {"train", "events/values_u64", "u64", "m"},
    {"train", "events/values_f16", "f16", "n"},
    {"train", "events/values_bf16", "bf16", "o"},
    {"train", "events/values_f8e4m3", "f8e4m3", "q"},
    {"train", "events/values_f8e5m2", "f8e5m2", "s"},
    {"train", "events/values_e8m0", "e8m0", "t"},
    {"x-slime", "pickle", "u8", "n"},
    {"x-slime", "records", "u8", "m"},
    {"x-slime", "record_offsets", "u64", "r+1", Values::kOffsets, 'm'},
    {"x-inputs", "sample_id", "u64", "S", Values::kSampleIds},
    {"x-findings", "text", "u8", "n"},
};

/// Which samples have a value: NAME_present of any column NAME.
constexpr KnownDataset kPresence = {"", "", "u8", "S", Values::kMask};

/// The events of the rollout phase have the same tables in a rollout unit, kept files in any
/// framework's.
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
