#include "format/foreign/dump_kind.h"

namespace rlreplay::foreign {
namespace {

bool has_records(const Tree& tree, const Value* samples) {
  if (samples == nullptr || samples->kind != Kind::kList) return false;
  const Sequence& list = tree.sequence(*samples);
  for (size_t i = 0; i < list.size(); ++i) {
    if (!is_record(list[i])) return false;
  }
  return true;
}

}  // namespace

DumpKind dump_kind(const Tree& tree, Value root) {
  if (root.kind != Kind::kDict) return DumpKind::kNone;
  const auto has = [&](std::string_view key) { return tree.find(root, key) != nullptr; };
  if (has("rollout_data")) {
    return is_record(*tree.find(root, "rollout_data")) ? DumpKind::kTrainRank : DumpKind::kNone;
  }
  if (!has_records(tree, tree.find(root, "samples"))) return DumpKind::kNone;
  if (has("call") || (has("ppo_kl") && has("pg_loss"))) return DumpKind::kPolicyLoss;
  if (has("format_version") || has("rank") || has("dp_shards")) return DumpKind::kTrainSamples;
  return has("rollout_id") ? DumpKind::kRollout : DumpKind::kNone;
}

std::optional<std::string> unknown_version(const Tree& tree, Value root) {
  const auto find = [&](std::string_view key) {
    return root.kind == Kind::kDict ? tree.find(root, key) : nullptr;
  };
  const Value* version = find("format_version");
  if (version == nullptr) return std::nullopt;
  if (find("rollout_id") == nullptr && dump_kind(tree, root) == DumpKind::kNone)
    return std::nullopt;
  if (version->kind == Kind::kInt && version->integer == 2) return std::nullopt;
  const bool number = version->kind == Kind::kInt;
  return "format_version is " + (number ? std::to_string(version->integer) : "no number") +
         ", which this program does not know: it reads version 2, and files that name none";
}

}  // namespace rlreplay::foreign
