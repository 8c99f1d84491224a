#include "src/replay/inspect/objective_report.h"

#include <algorithm>
#include <set>

#include "src/base/json_line.h"
#include "src/base/json_value.h"
#include "src/base/text_table.h"
#include "src/base/words.h"
#include "src/replay/inspect/objective_rivals.h"
#include "src/replay/inspect/objective_search.h"

namespace rlreplay::replay {
namespace {

constexpr size_t kListedSteps = 8;
constexpr size_t kExplainedSteps = 3;

std::string count(const ObjectiveStep& step, Verdict verdict) {
  return std::to_string(std::ranges::count(step.quantities, verdict, &Quantity::verdict));
}

std::string more_steps(size_t count, const char* verb) {
  return std::to_string(count) + (count == 1 ? " more step" : " more steps") + " (--all " + verb +
         (count == 1 ? " it)" : " them)");
}

std::string number(std::optional<double> value) { return short_number(value, 8); }

/// The first `most` that are not reproduced, or else the first, in order.
std::vector<const ObjectiveStep*> listed_steps(std::span<const ObjectiveStep> steps, size_t most) {
  std::vector<const ObjectiveStep*> out;
  for (const ObjectiveStep& step : steps) out.push_back(&step);
  std::stable_partition(out.begin(), out.end(),
                        [](const auto* step) { return !step->reproduced(); });
  out.resize(std::min(out.size(), most));
  std::ranges::sort(out);
  return out;
}

std::string steps_table(std::span<const ObjectiveStep> steps, size_t most) {
  TextTable table(
      {"step", "samples", "tokens", "equal", "rounding", "different", "unrecorded", "no inputs"});
  const auto listed = listed_steps(steps, most);
  for (const ObjectiveStep* step : listed) {
    table.add({step->id.name(), std::to_string(step->samples), std::to_string(step->tokens),
               count(*step, Verdict::kEqual), count(*step, Verdict::kRounding),
               count(*step, Verdict::kDifferent), count(*step, Verdict::kNotRecorded),
               count(*step, Verdict::kNoInput)});
  }
  if (listed.size() == steps.size()) return table.str();
  return table.str() + "and " + more_steps(steps.size() - listed.size(), "lists") + "\n";
}

/// A text in lines of at most 80 columns.
std::string paragraph(const std::string& text, size_t indent = 0) {
  return std::string(indent, ' ') + wrapped(one_line(text, SIZE_MAX), kLineWidth, indent) + "\n";
}

/// Values of tokens or samples, many of them a step.
std::string columns_table(const ObjectiveStep& step) {
  TextTable table({"column", "compared", "different", "max |a - b|", "verdict"});
  for (const Quantity& q : step.quantities) {
    if (q.scalar) continue;
    const bool compared = q.compared > 0;
    table.add({q.name, compared ? std::to_string(q.compared) : "",
               compared ? std::to_string(q.different) : "",
               compared ? short_number(q.max_difference) : "", std::string(to_string(q.verdict))});
  }
  return table.str();
}

std::string scalars_table(const ObjectiveStep& step) {
  TextTable table({"number", "recorded", "computed", "|a - b|", "verdict"});
  for (const Quantity& q : step.quantities) {
    if (!q.scalar) continue;
    table.add({q.name, q.recorded ? number(q.recorded) : "", q.computed ? number(q.computed) : "",
               q.compared > 0 ? short_number(q.max_difference) : "",
               std::string(to_string(q.verdict))});
  }
  return table.str();
}

std::string step_table(const ObjectiveStep& step) {
  std::string out =
      "step " + step.id.name() + " in full\n" + columns_table(step) + scalars_table(step);
  if (step.policy_is_old) {
    out += paragraph(
        "losses: of the first step of a rollout, whose policy is the one of the old "
        "log-probabilities");
  }
  if (step.unplaced > 0) {
    out += "no row of policy_loss_debug fits " + counted(step.unplaced, "sample") +
           " of the step: their terms were not compared\n";
  }
  if (!step.not_finite.empty()) {
    out += paragraph("the first value that is not finite: " + step.not_finite);
  }
  for (const Quantity& q : step.quantities) {
    if (q.not_a_number > 0) {
      out += q.name + ": " + std::to_string(q.not_a_number) + " of the recorded values are NaN\n";
    }
    if (q.not_computed > 0) {
      out += q.name + ": " + std::to_string(q.not_computed) +
             " recorded values are of samples that lack an input\n";
    }
    if (q.on_border > 0) {
      out +=
          paragraph(q.name + ": " + counted(static_cast<size_t>(q.on_border), "token") + " at a " +
                    "bound of the clip, where rounding to binary32 decides whether it is clipped");
    }
    if (q.verdict == Verdict::kNoInput) {
      out += paragraph(q.name + ": " +
                       (q.missing.empty() ? "its inputs are not recorded" : q.missing));
    }
  }
  return out;
}

/// Why numbers of steps that are not shown in full cannot be computed, each reason once.
std::string other_reasons(std::span<const ObjectiveStep> steps, const ObjectiveStep* in_full) {
  std::set<std::string> said;
  const auto reason = [](const Quantity& q) {
    return q.name + ": " + (q.missing.empty() ? "its inputs are not recorded" : q.missing);
  };
  for (size_t i = 0; in_full != nullptr && i < in_full->quantities.size(); ++i) {
    const Quantity& q = in_full->quantities[i];
    if (q.verdict == Verdict::kNoInput) said.insert(reason(q));
  }
  std::string out;
  for (const ObjectiveStep& step : steps) {
    for (const Quantity& q : step.quantities) {
      if (q.verdict != Verdict::kNoInput || !said.insert(reason(q)).second) continue;
      out += paragraph("step " + step.id.name() + ", " + reason(q));
    }
  }
  return out;
}

std::string place(const Quantity& q) {
  std::string out;
  if (q.sample) out = ", first at sample " + std::to_string(*q.sample);
  if (q.token) out += ", token " + std::to_string(*q.token);
  return out;
}

bool explains(const ObjectiveStep& step, const std::string& name) {
  return std::ranges::any_of(step.explanations, [&](const Explanation& e) {
    return std::ranges::find(e.quantities, name) != e.quantities.end();
  });
}

/// "step 1.0", "steps 1.0, 2.0 and 7 more".
std::string failing_steps(const Explanation& e) {
  constexpr size_t kNamed = 4;
  const size_t named = std::min(e.fails_in.size(), kNamed);
  const std::vector<std::string> first(e.fails_in.begin(),
                                       e.fails_in.begin() + static_cast<ptrdiff_t>(named));
  const size_t more = e.fails_in.size() - named;
  return (e.fails_in.size() == 1 ? "step " : "steps ") + joined(first, ", ") +
         (more == 0 ? "" : " and " + std::to_string(more) + " more");
}

/// `open`: takes the names of what no alternative reproduces.
std::string findings(const ObjectiveStep& step, std::set<std::string>& open) {
  std::string out;
  for (const Quantity& q : step.quantities) {
    if (q.refused && explains(step, q.name)) {
      out += paragraph("step " + step.id.name() + ", " + q.name +
                       ": recorded, and not computable with these options");
    }
    if (q.verdict != Verdict::kDifferent) continue;
    out += paragraph("step " + step.id.name() + ", " + q.name + place(q) + ": recorded " +
                     number(q.recorded) + ", computed " + number(q.computed));
    if (is_lone_share(step.quantities, q)) {
      out += paragraph(
          q.name + " alone tells no estimator: many clip as many tokens, and no loss was compared",
          2);
    } else if (!explains(step, q.name)) {
      open.insert(q.name);
    }
  }
  for (const Explanation& e : step.explanations) {
    const std::vector<std::string> settings = settings_texts(e);
    out += paragraph(joined(e.quantities, ", ") + " reproduced with: " + settings.front(), 2);
    for (const std::string& reason : e.reasons) {
      if (!reason.empty()) out += paragraph("(" + reason + ")", 2);
    }
    const std::string others = joined(std::span(settings).subspan(1), ", or ");
    if (!others.empty()) out += paragraph("or with: " + others, 2);
    if (!e.left.empty()) out += paragraph("but not " + joined(e.left, ", "), 2);
    if (!e.fails_in.empty()) out += paragraph("but it fails in " + failing_steps(e), 2);
  }
  return out;
}

/// What the search did not try, so that an explanation may be there; empty where it tried all.
std::string left_out(const Untried& untried) {
  std::vector<std::string> out;
  if (untried.pairs) out.emplace_back("two at a time (of many tokens only those that help are)");
  if (untried.triples) out.emplace_back("three at a time (the first 64 of those that help)");
  return out.empty() ? "" : "; not all were tried of " + joined(out, " and of ");
}

std::string unexplained(const std::set<std::string>& names, const Untried& untried) {
  if (names.empty()) return "";
  return paragraph("no alternative reproduces " + joined(names, ", ") +
                   ": neither dialect, estimator, grouping, normalisation, whitening, nor "
                   "reducer, denominators, clip, KL type, OPSM or TIS at their default bounds; a "
                   "bound, a coefficient, a reward or code of one's own may differ" +
                   left_out(untried));
}

std::string quantity_json(const Quantity& q) {
  JsonLine line;
  line.text("name", q.name).text("verdict", to_string(q.verdict));
  line.integer("compared", q.compared).integer("other_bits", q.other_bits);
  if (q.not_a_number > 0) line.integer("not_a_number", q.not_a_number);
  if (q.not_computed > 0) line.integer("not_computed", q.not_computed);
  line.integer("different", q.different).number("max_difference", q.max_difference);
  if (q.recorded) {
    line.bits("recorded", *q.recorded);
  } else {
    line.null("recorded");
  }
  if (q.computed) {
    line.bits("computed", *q.computed);
  } else {
    line.null("computed");
  }
  line.json("sample", q.sample ? std::to_string(*q.sample) : "null");
  line.json("token", q.token ? std::to_string(*q.token) : "null");
  if (q.verdict == Verdict::kNoInput) line.text("missing", q.missing);
  return line.str();
}

std::string explanation_json(const Explanation& e) {
  JsonLine line;
  line.json("quantities", json_list(e.quantities))
      .json("settings", json_list(e.settings))
      .json("reasons", json_list(e.reasons))
      .json("not_reproduced", json_list(e.left))
      .json("fails_in", json_list(e.fails_in));
  const auto rivals = named_rivals(e);
  if (rivals.empty()) return line.str();
  const auto settings = [](const Explanation* rival) { return json_list(rival->settings); };
  return line.json("rivals", json_list(rivals, settings)).str();
}

}  // namespace

std::string objective_text(std::span<const ObjectiveStep> steps, bool all) {
  std::string out = steps_table(steps, all ? SIZE_MAX : kListedSteps);
  const size_t most = all ? SIZE_MAX : kExplainedSteps;
  const auto bad =
      std::ranges::find_if(steps, [](const ObjectiveStep& s) { return !s.reproduced(); });
  if (!steps.empty()) out += "\n" + step_table(bad == steps.end() ? steps.front() : *bad);
  const ObjectiveStep* in_full = steps.empty()        ? nullptr
                                 : bad == steps.end() ? &steps.front()
                                                      : &*bad;
  out += other_reasons(steps, in_full);
  size_t explained = 0, different = 0;
  std::set<std::string> open;
  Untried untried;
  for (const ObjectiveStep& step : steps) {
    if (step.reproduced() && step.explanations.empty()) continue;
    ++different;
    untried.pairs |= step.untried.pairs;
    untried.triples |= step.untried.triples;
    if (explained++ < most) out += (explained == 1 ? "\n" : "") + findings(step, open);
  }
  out += unexplained(open, untried);
  if (different > most) {
    out += "and in " + more_steps(different - most, "explains") + "\n";
  }
  return out;
}

std::string objective_json(const ObjectiveStep& step) {
  JsonLine line;
  line.text("schema", "rlreplay.objective/1")
      .integer("rollout_id", step.id.rollout)
      .integer("step_id", step.id.step)
      .integer("samples", static_cast<int64_t>(step.samples))
      .integer("tokens", step.tokens)
      .boolean("reproduced", step.reproduced())
      .boolean("policy_is_old", step.policy_is_old)
      .integer("policy_loss_unplaced", step.unplaced)
      .json("not_finite", step.not_finite.empty() ? "null" : json_quoted(step.not_finite))
      .json("quantities", json_list(step.quantities, quantity_json))
      .json("explanations", json_list(step.explanations, explanation_json));
  std::vector<std::string> untried;
  if (step.untried.pairs) untried.emplace_back("pairs");
  if (step.untried.triples) untried.emplace_back("triples");
  if (!untried.empty()) line.json("untried", json_list(untried));
  return line.str();
}

}  // namespace rlreplay::replay
