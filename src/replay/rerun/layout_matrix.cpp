#include "src/replay/rerun/layout_matrix.h"

#include <algorithm>
#include <utility>

#include "src/base/error.h"
#include "src/base/with_place.h"
#include "src/base/words.h"
#include "src/engine/shard.h"
#include "src/events/name.h"
#include "src/replay/record/recorded_step.h"
#include "src/replay/rerun/recomputed_difference.h"
#include "src/replay/run/run_config.h"

namespace rlreplay::replay {

namespace {

/// The layout, and with it what may be on besides: sequence parallelism, moments cut over dp.
std::vector<Layout> with_switches(const Layout& layout) {
  std::vector<Layout> out{layout};
  const auto add = [&](bool Layout::*on, int ranks) {
    if (ranks == 1) return;
    for (size_t i = 0, count = out.size(); i < count; ++i) {
      out.push_back(out[i]);
      out.back().*on = true;
    }
  };
  add(&Layout::sp, layout.tp);
  add(&Layout::zero, layout.dp);
  return out;
}

}  // namespace

std::vector<Layout> layouts_to_try(const std::string& text, const ModelConfig& model,
                                   int64_t ranks) {
  std::vector<Layout> out;
  for (int n = 1; text == "all" && n <= ranks; ++n) {
    for (const Layout& layout : engine::fitting_layouts(model, n)) {
      std::ranges::copy(with_switches(layout), std::back_inserter(out));
    }
  }
  for (size_t at = 0; text != "all" && at <= text.size();) {
    const size_t end = std::min(text.find(';', at), text.size());
    out.push_back(with_place("--try", [&] { return parse_layout(text.substr(at, end - at)); }));
    engine::check_layout(model, out.back());
    at = end + 1;
  }
  return out;
}

namespace {

/// Says of a step in a layout whose numbers differ. Where the record does not tell the element, the
/// step is computed again with values, in one rank and in the layout; once that does not tell it
/// either, it is not tried again.
class DifferenceSearch {
 public:
  DifferenceSearch(const RecordedRun& record, const RunOptions& options, int64_t step)
      : record_(record), options_(options), model_(record.config().model), position_(step) {
    options_.layout.clear();
    const StepId& id = record.steps()[static_cast<size_t>(step)];
    for (const RecordedStep& s : read_recorded_rollout(record, id.rollout).steps) {
      if (s.id == id) samples_ = engine::sample_shapes(s.samples);
    }
  }

  std::optional<LayoutDifference> find(const Layout& layout, const ReplayedStep& step) {
    if (step.outcome.result.replicas || step.difference.identical()) return std::nullopt;
    LayoutDifference out;
    Origin origin = *step.difference.origin;
    if (lacks_element(step.difference) && layout.ranks() > 1) {
      if (auto finer = element(layout)) origin = *finer;
      out.note = note_;
    }
    out.numbers = {origin.event, origin.row, false};
    if (origin.value) {
      out.numbers.row = origin.value->at;
      out.numbers.column = true;
    }
    out.per_token = origin.per_token;
    const engine::DealtStep dealt{model_, layout, step_config(options_).train.leaf, samples_};
    out.ranks = engine::ranks_of(dealt, out.numbers);
    out.exchanged = engine::exchanged_before(dealt, origin.event);
    return out;
  }

 private:
  std::optional<Origin> element(const Layout& layout) {
    if (!note_.empty()) return std::nullopt;
    DifferenceSide alone{record_, options_};
    alone.plan.steps = {position_, position_};
    alone.plan.each_step = true;
    DifferenceSide ranks = alone;
    ranks.options.layout = to_string(layout);
    ranks.as_recorded = false;
    const StepId& id = record_.steps()[static_cast<size_t>(position_)];
    const RecomputedDifference found = recompute_difference(alone, ranks, id);
    if (found.step) return found.step->origin;
    note_ = found.note;
    return std::nullopt;
  }

  const RecordedRun& record_;
  RunOptions options_;
  const ModelConfig model_;
  const int64_t position_;  // of the step among the record's
  std::vector<engine::SampleShape> samples_;
  std::string note_;  // why elements are not known
};

}  // namespace

std::string LayoutDifference::place() const {
  if (!numbers.row) return {};
  std::string out = per_token ? "sample " + std::to_string(numbers.row->sample) + ", token " +
                                    std::to_string(numbers.row->row)
                              : "row " + std::to_string(numbers.row->row);
  if (numbers.column) out += ", column " + std::to_string(numbers.row->column);
  return out;
}

std::string LayoutVerdict::first_difference() const {
  if (step.outcome.result.replicas)
    return "copies of " + to_string(step.outcome.result.replicas->event);
  if (difference) return engine::to_string(difference->numbers.event);
  return step.values.identical() ? std::string() : step.values.different.front().name;
}

std::string LayoutVerdict::whose() const {
  if (step.outcome.result.replicas) return step.outcome.replicas;
  if (!difference) return {};
  std::string out = difference->place();
  std::vector<std::string> names;
  for (const int rank : difference->ranks) names.push_back(rank_name(layout, rank));
  out += (out.empty() ? "of " : "; of ") + joined(names, ", ");
  names.clear();
  for (const engine::RankGroup group : difference->exchanged) names.emplace_back(name(group));
  if (!names.empty()) out += ", after an exchange of " + joined(names, ", ");
  if (!difference->note.empty()) out += "; " + difference->note;
  return out;
}

void check_has_state(const RecordedRun& record, const StepId& step) {
  if (record.has_state(step)) return;
  throw Error(ErrorCode::kIncomplete,
              "the dump has no state before step " + step.name() +
                  ": give --step one that has, or capture it with --weights all",
              record.path());
}

bool try_layouts(const RecordedRun& record, const RunOptions& options, int64_t step,
                 std::span<const Layout> layouts, Machine& machine,
                 const std::function<void(const LayoutVerdict&)>& report) {
  const StepId& id = record.steps().at(static_cast<size_t>(step));
  check_has_state(record, id);
  const auto model = recorded_model(record);
  ReplayPlan plan;
  plan.steps = {step, step};
  plan.each_step = true;
  DifferenceSearch search(record, options, step);
  bool identical = true;
  for (const Layout& layout : layouts) {
    RunOptions in_layout = options;
    in_layout.layout = to_string(layout);
    Trainer trainer(machine.runtime(), in_layout, *model,
                    {.longest_prompt = longest_prompt(record), .records = false});
    LayoutVerdict verdict{layout, {}, {}};
    identical &= replay_training(record, in_layout, plan, trainer, machine.pool(), nullptr,
                                 [&](const ReplayedStep& taken) { verdict.step = taken; });
    verdict.difference = search.find(layout, verdict.step);
    report(verdict);
  }
  return identical;
}

}  // namespace rlreplay::replay
