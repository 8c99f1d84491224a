#include "src/replay/compare/dump_causes.h"

#include <algorithm>
#include <set>
#include <string_view>

namespace rlreplay::replay {
namespace {

/// What a step is given, and what people call it, in the order in which it comes.
struct Given {
  std::string_view field, name;
};
constexpr Given kGiven[] = {{"rollout/samples", "samples"}, {"rollout/prompt", "prompts"},
                            {"rollout/group_id", "groups"}, {"rollout/tokens", "tokens"},
                            {"rollout/rewards", "rewards"}, {"rollout/loss_mask", "masks"},
                            {"train/samples", "samples"},   {"train/tokens", "tokens"},
                            {"train/loss_mask", "masks"},   {"train/advantages", "advantages"}};

/// The state before the first step, where nothing that was trained on before explains it.
void add_state(const DataDifference& data, std::vector<Cause>& to) {
  const auto first = std::ranges::find_if(
      data.groups_differing, [](const auto& group) { return group.kind != "rollout"; });
  if (first == data.groups_differing.end() || first->kind != "weights" || !first->number) return;
  const bool any = std::ranges::any_of(data.fields, [](const FieldDifference& field) {
    return field.field.starts_with("weights/") && field.different > 0;
  });
  const std::string place = "before step " + std::to_string(first->number->rollout) + "." +
                            std::to_string(first->number->step.value_or(0));
  to.push_back({"state", any ? "the weights or moments " + place + " differ"
                             : "of the weights or moments " + place + " one lacks a part"});
}

void add_data(const DataDifference& data, const format::GroupName& at, std::vector<Cause>& to) {
  std::set<std::string_view> told;
  for (const Given& given : kGiven) {
    const auto field = std::ranges::find(data.fields, given.field, &FieldDifference::field);
    if (field == data.fields.end() || !field->first) continue;
    const ValueDifference& place = *field->first;
    if (at < format::GroupName{place.rollout_id, place.step_id}) continue;
    if (!told.insert(given.name).second) continue;
    to.push_back({"data", std::string(given.name) + ": " + place_text(place) + ": " +
                              change(place.a, place.b)});
  }
}

}  // namespace

std::vector<Cause> find_causes(const format::DumpReader& a, const format::DumpReader& b,
                               const DataDifference& data, const format::GroupName& at) {
  std::vector<Cause> out = run_causes(a, b);
  add_state(data, out);
  add_data(data, at, out);
  return out;
}

}  // namespace rlreplay::replay
