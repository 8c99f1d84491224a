#include "src/replay/rerun/layout_matrix.h"

#include <algorithm>
#include <optional>

#include "src/base/error.h"
#include "src/base/with_place.h"
#include "src/engine/shard.h"
#include "src/events/name.h"
#include "src/replay/record/recorded_step.h"

namespace rlreplay::replay {

std::vector<Layout> layouts_to_try(const std::string& text, const ModelConfig& model,
                                   int64_t ranks) {
  std::vector<Layout> out;
  for (int n = 1; text == "all" && n <= ranks; ++n) {
    std::ranges::copy(engine::fitting_layouts(model, n), std::back_inserter(out));
  }
  for (size_t at = 0; text != "all" && at <= text.size();) {
    const size_t end = std::min(text.find(';', at), text.size());
    out.push_back(with_place("--try", [&] { return parse_layout(text.substr(at, end - at)); }));
    engine::check_layout(model, out.back());
    at = end + 1;
  }
  return out;
}

std::string LayoutVerdict::first_difference() const {
  if (step.outcome.result.replicas)
    return "copies of " + to_string(step.outcome.result.replicas->event);
  if (!step.difference.identical()) return engine::to_string(step.difference.origin->event);
  return step.values.identical() ? std::string() : step.values.different.front().name;
}

bool try_layouts(const RecordedRun& record, const RunOptions& options, int64_t step,
                 std::span<const Layout> layouts, Machine& machine,
                 const std::function<void(const LayoutVerdict&)>& report) {
  const StepId& id = record.steps().at(static_cast<size_t>(step));
  if (!record.has_state(id)) {
    throw Error(ErrorCode::kIncomplete,
                "the dump has no state before step " + id.name() +
                    ": give --step one that has, or capture it with --weights all",
                record.path());
  }
  const auto model = recorded_model(record);
  ReplayPlan plan;
  plan.steps = {step, step};
  plan.each_step = true;
  bool identical = true;
  for (const Layout& layout : layouts) {
    RunOptions in_layout = options;
    in_layout.layout = to_string(layout);
    Trainer trainer(machine.runtime(), in_layout, *model,
                    {.longest_prompt = longest_prompt(record), .records = false});
    LayoutVerdict verdict{layout, {}};
    identical &= replay_training(record, in_layout, plan, trainer, machine.pool(), nullptr,
                                 [&](const ReplayedStep& taken) { verdict.step = taken; });
    report(verdict);
  }
  return identical;
}

}  // namespace rlreplay::replay
