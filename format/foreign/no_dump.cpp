#include "format/foreign/no_dump.h"

#include "format/foreign/tree_difference.h"

namespace rlreplay::foreign {
namespace {

Problem expected(const Tree& tree, const std::string& place, Value found, const char* what,
                 const std::string& where) {
  return {"not-a-dump", place + " is " + in_words(tree, found) + ", expected " + what, where};
}

}  // namespace

Problem no_dump_problem(const Tree& tree, Value root) {
  const Problem other{"not-a-dump", "this is no dump of a rollout or of training data", ""};
  if (root.kind != Kind::kDict) return other;
  const bool named = tree.find(root, "rollout_id") != nullptr;
  if (const Value* data = tree.find(root, "rollout_data")) {
    return expected(tree, "rollout_data", *data, "a dict of columns", "rollout_data");
  }
  const Value* samples = tree.find(root, "samples");
  if (samples == nullptr) return other;
  if (samples->kind != Kind::kList) {
    return named ? expected(tree, "samples", *samples, "a list of samples", "samples") : other;
  }
  const Sequence& list = tree.sequence(*samples);
  for (size_t i = 0; i < list.size(); ++i) {
    if (is_record(list[i])) continue;
    const std::string place = std::to_string(i);
    return expected(tree, "samples[" + place + "]", list[i], "a dict of the sample's fields",
                    "row " + place);
  }
  if (named) return other;
  return {"not-a-dump", "rollout_id is missing, without which samples are no dump", ""};
}

}  // namespace rlreplay::foreign
