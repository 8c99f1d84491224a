#include "format/foreign/framework.h"

#include <initializer_list>
#include <optional>

namespace rlreplay::foreign {
namespace {

bool has_any(const Tree& tree, Value record, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    if (tree.find(record, key) != nullptr) return true;
  }
  return false;
}

std::optional<Value> first_sample(const Tree& tree, Value root) {
  const Value* samples = tree.find(root, "samples");
  if (samples == nullptr || samples->kind != Kind::kList) return std::nullopt;
  if (tree.sequence(*samples).size() == 0) return std::nullopt;
  return tree.sequence(*samples)[0];
}

DumpIdentity rollout(const Tree& tree, Value root) {
  const std::optional<Value> sample = first_sample(tree, root);
  if (sample && has_any(tree, *sample, {"decoded_tokens", "rollout_tokens"})) {
    return {Framework::kRelax, DumpKind::kRollout, "Relax rollout"};
  }
  const bool miles =
      has_any(tree, root, {"metadata"}) ||
      (sample && has_any(tree, *sample, {"routing_key", "adapter", "rollout_indexer_topk"}));
  if (miles) return {Framework::kMiles, DumpKind::kRollout, "Miles rollout"};
  const Value* spec = sample ? tree.find(*sample, "spec_info") : nullptr;
  const bool old = spec != nullptr && spec->kind == Kind::kObject;
  return {Framework::kSlime, DumpKind::kRollout,
          old ? "slime rollout with live objects (before 2025-11-21)" : "slime rollout"};
}

DumpIdentity train_rank(const Tree& tree, Value root) {
  const Value data = *tree.find(root, "rollout_data");
  if (has_any(tree, root, {"cp_size", "qkv_format"})) {
    return {Framework::kMiles, DumpKind::kTrainRank, "Miles, one file a rank (since 2026-08-17)"};
  }
  if (has_any(tree, data, {"max_seq_lens", "num_rollouts", "weight_versions"})) {
    return {Framework::kMiles, DumpKind::kTrainRank, "Miles, one file a rank (before 2026-08-17)"};
  }
  return {Framework::kSlime, DumpKind::kTrainRank, "slime, one file a rank (before 2026-08-12)"};
}

DumpIdentity train_samples(const Tree& tree, Value root) {
  if (tree.find(root, "format_version") != nullptr) {
    return {Framework::kSlime, DumpKind::kTrainSamples,
            "slime, one file a rollout (format_version 2)"};
  }
  return {Framework::kRelax, DumpKind::kTrainSamples, "Relax, one file a rank"};
}

}  // namespace

DumpIdentity identify_dump(const Tree& tree, Value root) {
  switch (dump_kind(tree, root)) {
    case DumpKind::kRollout:
      return rollout(tree, root);
    case DumpKind::kTrainRank:
      return train_rank(tree, root);
    case DumpKind::kTrainSamples:
      return train_samples(tree, root);
    case DumpKind::kPolicyLoss:
      return {Framework::kMiles, DumpKind::kPolicyLoss, "Miles policy_loss_debug"};
    case DumpKind::kNone:
      return {};
  }
  return {};
}

}  // namespace rlreplay::foreign
