#include "src/replay/exchange/contradictions.h"

#include <array>
#include <string_view>
#include <utility>

#include "format/foreign/dump_check.h"
#include "format/foreign/tree_hash.h"
#include "src/base/hash.h"
#include "src/replay/record/import_findings.h"

namespace rlreplay::replay {
namespace {

using foreign::Kind;
using foreign::Problem;
using foreign::TorchFile;
using foreign::Tree;
using foreign::Value;

/// What a sample says of itself. Its other fields (times, traces, ids of sessions) differ from run
/// to run.
constexpr auto kRead = std::to_array<std::string_view>({"index",
                                                        "group_index",
                                                        "rollout_id",
                                                        "tokens",
                                                        "response_length",
                                                        "reward",
                                                        "loss_mask",
                                                        "rollout_log_probs",
                                                        "teacher_log_probs",
                                                        "opd_reverse_kl",
                                                        "rollout_top_p_token_ids",
                                                        "rollout_top_p_token_offsets",
                                                        "rollout_routed_experts",
                                                        "rollout_indexer_topk",
                                                        "status",
                                                        "remove_sample",
                                                        "weight_versions",
                                                        "prompt",
                                                        "response",
                                                        "label",
                                                        "metadata",
                                                        "train_metadata",
                                                        "multimodal_inputs",
                                                        "multimodal_train_inputs"});

std::string hash_of_samples(const Tree& tree, Value root) {
  const Value* samples = tree.find(root, "samples");
  std::string text;
  for (size_t i = 0; i < tree.sequence(*samples).size(); ++i) {
    const Value sample = tree.sequence(*samples)[i];
    for (const std::string_view field : kRead) {
      const Value* value = tree.find(sample, field);
      text += value == nullptr ? "-\n" : tree_hash(tree, *value).hex() + "\n";
    }
  }
  return hash_of(text).hex();
}

std::string content_hash(const TorchFile& file) {
  const Tree& tree = file.tree();
  if (dump_kind(tree, file.root()) == foreign::DumpKind::kRollout) {
    return hash_of_samples(tree, file.root());
  }
  return tree_hash(tree, file.root()).hex();
}

/// The problem with its place in the file alone: FileFindings names the file beside it.
Problem placed_in(Problem problem, const TorchFile& file) {
  std::string& where = problem.where;
  if (where == file.path()) {
    where.clear();
  } else if (where.starts_with(file.path() + ": ")) {
    where.erase(0, file.path().size() + 2);
  }
  return problem;
}

}  // namespace

void Contradictions::add(Problem problem, const std::string& name, const TorchFile& file) {
  const auto [tail, fresh] = tails_.emplace(name, "");
  if (fresh) tail->second = "; all that the file says has the hash " + content_hash(file);
  findings_.add(name, tail->second, placed_in(std::move(problem), file));
}

void Contradictions::add_note(Problem problem, const std::string& name, const TorchFile& file) {
  findings_.add(name, "", placed_in(std::move(problem), file));
}

std::vector<format::Dataset> Contradictions::datasets() const {
  return findings_datasets(findings_.finish());
}

}  // namespace rlreplay::replay
