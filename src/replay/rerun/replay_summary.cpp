#include "src/replay/rerun/replay_summary.h"

#include <algorithm>
#include <cmath>

#include "src/base/json_line.h"
#include "src/base/json_value.h"
#include "src/base/text_table.h"
#include "src/base/words.h"

namespace rlreplay::replay {
namespace {

StepId id_of(const StepOutcome& outcome) { return {outcome.rollout_id, outcome.step_id}; }

/// Takes a change that is larger than those before. Equal numbers, and two NaNs, are no change. One
/// that is not finite is counted apart: as the largest it would hide every other.
void take(std::optional<LargestChange>& to, std::optional<double> record, double replay,
          const StepOutcome& outcome) {
  if (!record) return;
  if (!to) to.emplace();
  const double change = std::abs(replay - *record);
  const bool both_nan = std::isnan(*record) && std::isnan(replay);
  if (both_nan || replay == *record) return;
  if (!std::isfinite(change)) {
    ++to->nonfinite;
    return;
  }
  if (change <= to->change) return;
  to->change = change;
  to->record = *record;
  to->step = id_of(outcome);
}

std::string change_text(const char* name, const std::optional<LargestChange>& change) {
  std::string out = name;
  if (!change) return out + " not recorded";
  out += " " + short_number(change->change, 3);
  if (change->step) {
    out += " (step " + change->step->name();
    if (change->sample) {
      out += ", sample " + std::to_string(*change->sample) + ", token " +
             std::to_string(*change->token);
    } else if (change->record != 0) {
      out += ", " + short_number(100 * change->change / std::abs(change->record), 3) + " %";
    }
    out += ")";
  }
  if (change->nonfinite > 0) out += ", " + std::to_string(change->nonfinite) + " not finite";
  return out;
}

std::string change_json(const std::optional<LargestChange>& change) {
  if (!change) return "null";
  JsonLine out;
  out.number("change", change->change).number("record", change->record);
  change->step ? out.text("step", change->step->name()) : out.null("step");
  change->sample ? out.json("sample", std::to_string(*change->sample)) : out.null("sample");
  change->token ? out.integer("token", *change->token) : out.null("token");
  return out.integer("nonfinite", change->nonfinite).str();
}

void add_new(std::vector<std::string>& to, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (std::ranges::find(to, name) == to.end()) to.push_back(name);
  }
}

std::string indented(const std::string& text) { return "  " + wrapped(text, kLineWidth, 4) + "\n"; }

}  // namespace

std::string skipped_line(const std::string& why) {
  return why.empty() ? "" : indented("statistics of events not compared: " + why);
}

void ReplaySummary::add(const StepOutcome& outcome) {
  ++steps;
  if (outcome.identical && !*outcome.identical) ++different;
  if (outcome.recorded_scalars) {
    take(loss, outcome.recorded_scalars->loss, outcome.result.losses.total, outcome);
    take(grad_norm, outcome.recorded_scalars->grad_norm, outcome.result.grad_norm, outcome);
  }
  if (!outcome.replay_vs_record) return;
  const LogProbDifference& d = *outcome.replay_vs_record;
  if (!log_prob) log_prob.emplace();
  log_prob->nonfinite += d.nonfinite;
  if (d.max <= log_prob->change || !d.where) return;
  log_prob->change = d.max;
  log_prob->step = id_of(outcome);
  log_prob->sample = d.where->sample;
  log_prob->token = d.where->token;
}

void ReplaySummary::add(const ReplayedStep& step) {
  add(step.outcome);
  events += step.events;
  values += step.values.compared;
  if (different_values.empty() && !step.values.identical()) {
    different_values = values_json(step.values);
  }
  add_new(not_compared, step.values.not_compared);
  add_new(taken, step.values.taken);
  if (statistics_skipped.empty()) statistics_skipped = step.values.statistics_skipped;
}

std::string summary_text(const ReplaySummary& summary, const std::string& dump, size_t steps) {
  std::string what =
      std::to_string(summary.steps) + " of " + counted(steps, "step") + " of " + dump;
  if (summary.judged()) {
    what += ": " + counted(summary.events, "event") + " by digest, " +
            counted(summary.values, "number") + " by bits";
  }
  const auto list = [&](const char* title, const std::vector<std::string>& names) {
    if (!names.empty()) what += title;
    for (const std::string& name : names) what += " " + name;
  };
  list("; not compared:", summary.not_compared);
  list("; taken from the record:", summary.taken);
  const std::string changes = "largest change: " + change_text("loss", summary.loss) + ", " +
                              change_text("grad_norm", summary.grad_norm) + ", " +
                              change_text("log-probability", summary.log_prob);
  return indented(what) + indented(changes) + skipped_line(summary.statistics_skipped);
}

std::string summary_json(const ReplaySummary& summary, const std::string& dump, size_t steps,
                         const std::string& incomplete) {
  JsonLine out, largest;
  out.text("schema", "rlreplay.replay/1").text("dump", dump);
  summary.judged() ? out.boolean("identical", summary.identical()) : out.null("identical");
  out.integer("steps", summary.steps).integer("different", summary.different);
  out.integer("recorded_steps", static_cast<int64_t>(steps));
  out.integer("events", summary.events).integer("values", summary.values);
  largest.json("loss", change_json(summary.loss));
  largest.json("grad_norm", change_json(summary.grad_norm));
  largest.json("log_prob", change_json(summary.log_prob));
  out.json("largest_change", largest.str());
  out.json("different_values", summary.different_values.empty() ? "[]" : summary.different_values);
  out.json("taken", json_list(summary.taken));
  out.json("not_compared", json_list(summary.not_compared));
  const std::string& skipped = summary.statistics_skipped;
  skipped.empty() ? out.null("statistics_not_compared")
                  : out.text("statistics_not_compared", skipped);
  incomplete.empty() ? out.null("incomplete") : out.text("incomplete", incomplete);
  return out.str();
}

}  // namespace rlreplay::replay
