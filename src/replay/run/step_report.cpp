#include "src/replay/run/step_report.h"

#include <iostream>

#include "src/base/json_line.h"
#include "src/base/same_value.h"
#include "src/base/step_id.h"
#include "src/base/terminal.h"
#include "src/base/text_table.h"
#include "src/base/words.h"
#include "src/events/name.h"

namespace rlreplay::replay {
namespace {

std::string difference_text(const std::optional<LogProbDifference>& difference) {
  return difference ? short_number(difference->max, 3) : "-";
}

std::string difference_json(const std::optional<LogProbDifference>& difference) {
  return difference ? to_json(*difference) : "null";
}

std::string reward_text(const StepOutcome& step) {
  return step.reward ? formatted("%.4f", *step.reward) : "-";
}

std::string inputs_json(const RecordedCounts& r, const RecordedScalars& record) {
  JsonLine out;
  out.integer("samples", r.samples).integer("advantages", r.advantages);
  out.integer("old_log_probs", r.old_log_probs).integer("ref_log_probs", r.ref_log_probs);
  out.integer("loss_mask", r.masks).integer("rewards", r.rewards);
  out.integer("shaped_rewards", r.shaped_rewards);
  out.number("loss", record.loss).number("grad_norm", record.grad_norm);
  return out.str();
}

std::string identical_text(const StepOutcome& step) {
  if (!step.identical) return "   -";
  return *step.identical ? coloured(" yes", Colour::kGreen, stdout)
                         : coloured("  NO", Colour::kRed, stdout);
}

bool differs(std::optional<double> record, double replay) {
  return record && !same_value(*record, replay);
}

std::string change_text(std::optional<double> record, double replay) {
  return record ? formatted("%+.1e", replay - *record) : "";
}

std::string number_text(const char* pattern, std::optional<double> number) {
  return number ? formatted(pattern, *number) : "";
}

/// What was recorded, and how far the step lies from it, under the step's own numbers.
std::string record_rows(const StepOutcome& step) {
  if (!step.recorded_scalars) return {};
  const RecordedScalars& record = *step.recorded_scalars;
  const engine::StepResult& r = step.result;
  if (!differs(record.loss, r.losses.total) && !differs(record.grad_norm, r.grad_norm) &&
      !differs(record.lr, step.lr)) {
    return {};
  }
  const auto row = [](const char* name, const std::string& loss, const std::string& norm,
                      const std::string& lr, const std::string& log_prob) {
    std::string out = formatted("%-6s %6s %10s %9s %7s %9s", name, "", loss.c_str(), norm.c_str(),
                                lr.c_str(), log_prob.c_str());
    out.erase(out.find_last_not_of(' ') + 1);
    return out + "\n";
  };
  return row("record", number_text("%+.3e", record.loss), number_text("%.3e", record.grad_norm),
             number_text("%.1e", record.lr), "") +
         row("change", change_text(record.loss, r.losses.total),
             change_text(record.grad_norm, r.grad_norm), change_text(record.lr, step.lr),
             difference_text(step.replay_vs_record));
}

std::string record_json(const RecordedScalars& record) {
  JsonLine out;
  const auto add = [&](const char* name, std::optional<double> value) {
    value ? out.bits(name, *value) : out.null(name);
  };
  add("loss", record.loss);
  add("grad_norm", record.grad_norm);
  add("lr", record.lr);
  return out.str();
}

}  // namespace

std::string StepTable::add(const StepOutcome& step) {
  std::string out;
  if (!begun_) {
    out = " step  reward       loss grad_norm      lr logp_diff tokens    sec weights  same\n";
    begun_ = true;
  }
  const std::string name = StepId{step.rollout_id, step.step_id}.name();
  const engine::StepResult& r = step.result;
  out += formatted("%5s %7s %+10.3e %9.3e %7.1e %9s %6lld %6.2f %-8s ", name.c_str(),
                   reward_text(step).c_str(), r.losses.total, r.grad_norm, step.lr,
                   difference_text(step.train_vs_rollout).c_str(),
                   static_cast<long long>(step.tokens), step.seconds,
                   step.digests ? step.digests->weights.hex().substr(0, 8).c_str() : "-");
  out += identical_text(step) + "\n" + record_rows(step);
  if (!step.replicas.empty()) {
    out += "ranks  " + wrapped("copies differ: " + step.replicas, kLineWidth, 7) + "\n";
  }
  return out;
}

std::string replicas_json(const engine::ReplicaDifference& d) {
  JsonLine out;
  out.text("event", engine::to_string(d.event)).integer("index", d.index).text("place", d.place);
  out.integer("rank", d.rank).integer("other", d.other).boolean("outvoted", d.outvoted);
  out.integer("copies", d.copies).text("value", d.value).text("other_value", d.other_value);
  return out.str();
}

std::string to_json(const StepOutcome& step) {
  const engine::StepResult& r = step.result;
  JsonLine out, differences;
  out.text("schema", "rlreplay.run.step/1");
  out.integer("rollout_id", step.rollout_id).integer("step_id", step.step_id);
  out.bits("loss", r.losses.total).bits("pg_loss", r.losses.policy);
  out.bits("entropy", r.losses.entropy).bits("kl", r.losses.kl);
  out.bits("clip_fraction", r.losses.clip_fraction);
  out.bits("grad_norm", r.grad_norm).bits("lr", step.lr);
  step.reward ? out.bits("reward", *step.reward) : out.null("reward");
  if (step.digests) {
    out.text("weights_digest", step.digests->weights.hex());
    out.text("gradients_digest", step.digests->gradients.hex());
    out.text("optimizer_digest", step.digests->optimizer.hex());
  }
  step.identical ? out.boolean("identical", *step.identical) : out.null("identical");
  differences.json("train_vs_rollout", difference_json(step.train_vs_rollout));
  differences.json("replay_vs_record", difference_json(step.replay_vs_record));
  differences.json("policy_vs_reference", difference_json(step.policy_vs_reference));
  out.json("forward_logp_max_diff", differences.str());
  if (step.recorded_scalars) out.json("record", record_json(*step.recorded_scalars));
  if (step.result.replicas) out.json("replicas", replicas_json(*step.result.replicas));
  if (step.recorded_counts) {
    out.json("recorded",
             inputs_json(*step.recorded_counts, step.recorded_scalars.value_or(RecordedScalars{})));
  }
  out.number("seconds", step.seconds).number("train_seconds", step.train_seconds);
  out.integer("tokens", step.tokens);
  return out.str();
}

void StepLines::add(const StepOutcome& step) { std::cout << text(step) << std::flush; }

std::string StepLines::text(const StepOutcome& step) {
  return json_ ? to_json(step) + "\n" : table_.add(step);
}

}  // namespace rlreplay::replay
