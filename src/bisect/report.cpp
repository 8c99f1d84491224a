#include "src/bisect/report.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "src/base/json_line.h"
#include "src/base/json_value.h"
#include "src/base/number_text.h"
#include "src/base/shell.h"
#include "src/base/words.h"
#include "src/replay/compare/dumps_difference_report.h"
#include "src/replay/measure/metric_selection.h"

namespace rlreplay::bisect {
namespace {

/// The search between two revisions, with everything else as it was.
std::string command_of(const RevisionQuestion& question, const std::string& good,
                       const std::string& bad) {
  std::string command = "rlbisect " + good + ".." + bad;
  if (question.repository != ".") command += " --repo " + shell_word(question.repository);
  if (!question.recipe.build.empty()) command += " --build " + shell_word(question.recipe.build);
  command += " --run " + shell_word(question.recipe.run);
  if (!question.recipe.launch.empty()) command += " --launch " + shell_word(question.recipe.launch);
  for (const auto& [path, clone] : question.dependencies) {
    command += " --dependency " + shell_word(path + "=" + clone);
  }
  for (const auto& path : question.paths) command += " --path " + shell_word(path);
  if (!question.recipe.overlay.empty())
    command += " --overlay " + shell_word(question.recipe.overlay);
  const auto& comparison = question.recipe.comparison;
  if (comparison) command += " --differ " + shell_word(comparison->words);
  const Criterion& criterion = comparison ? comparison->criterion : question.plan.criterion;
  for (const auto& metric : criterion.metrics) command += " --metric " + shell_word(metric);
  for (const auto& metric : criterion.excluded) command += " --exclude " + shell_word(metric);
  for (const int code : criterion.bad_exits) command += " --bad-exit " + std::to_string(code);
  if (criterion.tolerance > 0) command += " --tolerance " + shortest(criterion.tolerance);
  if (question.plan.end_runs != SearchPlan().end_runs) {
    command += " --repeat-ends " + std::to_string(question.plan.end_runs);
  }
  if (question.plan.side_runs != SearchPlan().side_runs) {
    command += " --repeat-sides " + std::to_string(question.plan.side_runs);
  }
  if (question.plan.confidence) command += " --stat " + shortest(*question.plan.confidence);
  if (question.recipe.time_limit != ProcessLimits::kNoTime) {
    command +=
        " --timeout " + shortest(std::chrono::duration<double>(question.recipe.time_limit).count());
  }
  return command;
}

/// A finding is seen again by the search between its two sides, which takes the fewest runs.
std::string reproduce(const RevisionQuestion& question, const Finding& finding) {
  const bool narrowed =
      finding.confirmed && !finding.confidence && finding.parent && !finding.suspects.empty();
  return narrowed ? command_of(question, finding.parent->id, finding.suspects.back().id)
                  : command_of(question, finding.good.id, finding.bad.id);
}

constexpr size_t kFewLines = 3;  // of a list in a short report

/// What was compared, where it has one name.
std::optional<std::string> metric_of(const RevisionQuestion& question, const Finding& finding) {
  const auto& metrics = finding.criterion.value_or(question.plan.criterion).metrics;
  if (!metrics.empty()) return joined(metrics, ", ");
  if (finding.evidence == measure::Evidence::kDump) return "weights";
  return std::nullopt;
}

std::string criterion_text(const RevisionQuestion& question, const Finding& finding,
                           replay::ReportLength length) {
  const Criterion criterion = finding.criterion.value_or(question.plan.criterion);
  if (question.recipe.comparison)
    return "runs of each revision: " + question.recipe.comparison->words;
  if (finding.evidence == measure::Evidence::kExitCode) return "exit codes";
  const bool is_short = length == replay::ReportLength::kShort && !criterion.metrics.empty();
  const std::string what = (is_short ? measure::first_names(criterion.metrics)
                                     : metric_of(question, finding).value_or("every number")) +
                           " of " + to_string(finding.evidence.value_or(measure::Evidence::kNone));
  return criterion.tolerance > 0 ? what + ", within " + shortest(criterion.tolerance)
                                 : what + ", bit for bit";
}

std::string revision_line(const Revision& revision) {
  return revision.short_id() + " " + revision.subject + " (" + revision.author + ", " +
         revision.date + ")\n";
}

/// Those of searches in dependencies, too.
std::vector<Trial> all_trials(const Finding& finding) {
  std::vector<Trial> trials = finding.trials;
  for (const Finding& inner : finding.inside) {
    trials.insert(trials.end(), inner.trials.begin(), inner.trials.end());
  }
  return trials;
}

size_t count(const Finding& finding, Origin origin) {
  return static_cast<size_t>(std::ranges::count(all_trials(finding), origin, &Trial::origin));
}

constexpr Purpose kPurposes[] = {Purpose::kGoodEnd, Purpose::kBadEnd, Purpose::kSearch,
                                 Purpose::kProbe, Purpose::kConfirmation};

size_t count_runs(const Finding& finding, Purpose purpose) {
  return static_cast<size_t>(std::ranges::count_if(all_trials(finding), [&](const Trial& trial) {
    return trial.origin == Origin::kRun && trial.purpose == purpose;
  }));
}

/// ` (2 good end, 2 bad end, 3 search)`
std::string purposes_text(const Finding& finding) {
  std::vector<std::string> parts;
  for (const Purpose purpose : kPurposes) {
    const size_t runs = count_runs(finding, purpose);
    if (runs > 0) parts.push_back(std::to_string(runs) + " " + std::string(to_string(purpose)));
  }
  return parts.empty() ? "" : " (" + joined(parts, ", ") + ")";
}

std::string purposes_json(const Finding& finding) {
  JsonLine line;
  for (const Purpose purpose : kPurposes) {
    std::string key(to_string(purpose));
    std::ranges::replace(key, ' ', '_');
    line.integer(key, static_cast<int64_t>(count_runs(finding, purpose)));
  }
  return line.str();
}

/// `11 for 7 revisions (2 good end, ...), 2 of equal content not run again`
std::string runs_text(const Finding& finding) {
  const size_t equal = count(finding, Origin::kEqualContent);
  const size_t stored = count(finding, Origin::kStored);
  std::string text = std::to_string(count(finding, Origin::kRun)) + " for " +
                     counted(finding.revisions, "revision") + purposes_text(finding);
  if (equal > 0) text += ", " + std::to_string(equal) + " of equal content not run again";
  if (stored > 0) {
    const auto trials = all_trials(finding);
    const auto at = std::ranges::find(trials, Origin::kStored, &Trial::origin);
    text += ", " + std::to_string(stored) + " stored (the first of " + at->date + ")";
  }
  return text;
}

/// `2 of 2 runs`
std::string all_runs(size_t count) {
  return std::to_string(count) + " of " + std::to_string(count) + " runs";
}

/// Versions of others that the culprit changed: it may be one of them.
std::string pins_text(const Finding& finding) {
  std::string text;
  for (const Pin& pin : finding.pins) {
    const size_t shown = pin.submodule ? 12 : std::string::npos;
    text += "pin        " + pin.path + ": " + pin.before.substr(0, shown) + " -> " +
            pin.after.substr(0, shown) + (pin.submodule ? " (submodule)" : "") + "\n";
  }
  return text;
}

std::string ids_json(const std::vector<Revision>& revisions) {
  return json_list(revisions, [](const Revision& revision) { return json_quoted(revision.id); });
}

/// What was found inside of submodules.
std::string inside_text(const Finding& finding) {
  std::string text = finding.inside_note.empty() ? "" : "inside     " + finding.inside_note + "\n";
  for (const Finding& inner : finding.inside) {
    text += "inside     " + inner.dependency + ": ";
    if (inner.confirmed && inner.suspects.size() == 1) {
      text += revision_line(inner.suspects[0]);
      text += "           " + (inner.culprit ? inner.culprit->reason : "") + "\n";
    } else if (inner.result == SearchResult::kFound) {
      text += "one of " + std::to_string(inner.suspects.size()) + " commits up to " +
              revision_line(inner.suspects.back());
    } else {
      text += inner.reason + "\n";
    }
  }
  return text;
}

std::string dependency_json(const Finding& inner) {
  JsonLine line;
  line.text("name", inner.dependency);
  const bool single = inner.confirmed && inner.suspects.size() == 1;
  single ? line.text("culprit", inner.suspects[0].id) : line.null("culprit");
  line.json("interval", ids_json(inner.suspects)).boolean("confirmed", inner.confirmed);
  return (inner.reason.empty() ? line.null("reason") : line.text("reason", inner.reason)).str();
}

std::string pins_json(const Finding& finding) {
  return json_list(finding.pins, [](const Pin& pin) {
    JsonLine line;
    line.text("path", pin.path).text("before", pin.before).text("after", pin.after);
    return line.boolean("submodule", pin.submodule).str();
  });
}

/// Merges into which the search went down, or why it did not.
std::string merges_text(const Finding& finding) {
  std::string text;
  for (const Revision& merge : finding.merges) text += "merged by  " + revision_line(merge);
  if (!finding.merge_note.empty()) text += "merge      " + finding.merge_note + "\n";
  return text;
}

/// Probes that the culprit does not explain.
std::string contradictions_text(const Finding& finding) {
  std::string text;
  for (const Trial& trial : finding.contradictions) {
    text += "but        " + trial.revision.short_id() + " is " +
            std::string(to_string(trial.judgement.verdict)) +
            ": the run changed more than once, and this is one of the changes\n";
  }
  return text;
}

std::string found_text(const RevisionQuestion& question, const Finding& finding,
                       replay::ReportLength length) {
  std::string text;
  if (finding.suspects.size() == 1) {
    text += "culprit    " + revision_line(finding.suspects[0]);
  } else {
    text += "culprit    one of these " + std::to_string(finding.suspects.size()) +
            (finding.confidence  ? ":\n"
             : finding.confirmed ? ", of which only the last is known to be bad:\n"
                                 : ", of which the last merged the others:\n");
    const size_t shown = length == replay::ReportLength::kShort ? kFewLines : SIZE_MAX;
    const size_t left_out = finding.suspects.size() - std::min(shown, finding.suspects.size());
    if (left_out > 0) {
      text += "           " + std::to_string(left_out) + " of them (--all lists them), and\n";
    }
    for (size_t i = left_out; i < finding.suspects.size(); ++i) {
      text += "           " + revision_line(finding.suspects[i]);
    }
  }
  if (finding.culprit) text += "           bad: " + finding.culprit->reason + "\n";
  text += "parent     " + revision_line(*finding.parent);
  if (finding.confidence) {
    return text + "confidence " + shortest(std::round(1000 * *finding.confidence) / 10) +
           " %, by " + counted(finding.parent_runs, "run") + " before it and " +
           counted(finding.culprit_runs, "run") + " from it on\n";
  }
  text += std::string(finding.confirmed ? "confirmed" : "runs gave") + "  bad in " +
          all_runs(finding.culprit_runs) + ", good in " + all_runs(finding.parent_runs);
  const bool builds = !question.recipe.build.empty() && question.plan.side_runs > 1;
  text += builds ? ", of more than one build\n" : ", each in a fresh worktree\n";
  text += pins_text(finding) + inside_text(finding) + merges_text(finding) +
          contradictions_text(finding);
  if (finding.not_run == 0) return text;
  return text + "not run    " + std::to_string(finding.not_run) + " of " +
         std::to_string(finding.revisions) +
         " revisions: had the run changed there and back again, it would not be seen\n";
}

/// A line each; of many the first few.
std::string skips_text(const Finding& finding, replay::ReportLength length) {
  std::string text;
  size_t skips = 0;
  for (const Trial& trial : finding.trials) {
    if (trial.judgement.verdict != Verdict::kSkip) continue;
    if (finding.says(trial.judgement.reason)) continue;
    if (++skips > kFewLines && length == replay::ReportLength::kShort) continue;
    text += "skipped    " + trial.revision.short_id() + " " + trial.judgement.reason + "\n";
  }
  if (skips <= kFewLines || length != replay::ReportLength::kShort) return text;
  return text + "           and " + std::to_string(skips - kFewLines) +
         " more (--all lists them)\n";
}

std::string headline(const RevisionQuestion& question, const Finding& finding,
                     replay::ReportLength length) {
  const std::string word(to_string(finding.result));
  if (finding.result == SearchResult::kFound) {
    return word + "\n\n" + found_text(question, finding, length);
  }
  return word + "\n\nreason     " + finding.reason + "\n";
}

std::string trials_json(const std::vector<Trial>& trials) {
  return json_list(trials, [](const Trial& trial) {
    return JsonLine()
        .text("revision", trial.revision.id)
        .text("reason", trial.judgement.reason)
        .str();
  });
}

std::string skips_json(const Finding& finding) {
  std::vector<Trial> skips = finding.trials;
  std::erase_if(skips, [](const Trial& t) { return t.judgement.verdict != Verdict::kSkip; });
  return trials_json(skips);
}

void add_value(JsonLine& line, const std::string& key, const measure::MetricValue& value) {
  value.text.empty() ? line.bits(key, value.number) : line.text(key, value.text);
}

void add_difference(JsonLine& line, const Judgement* judgement) {
  if (judgement == nullptr || !judgement->difference) {
    line.null("difference");
    return;
  }
  const measure::Difference& difference = *judgement->difference;
  JsonLine out;
  out.text("metric", difference.metric);
  difference.step ? out.integer("step", static_cast<int64_t>(*difference.step)) : out.null("step");
  add_value(out, "good", difference.good);
  add_value(out, "bad", difference.bad);
  out.integer("different", static_cast<int64_t>(difference.different));
  out.integer("compared", static_cast<int64_t>(difference.compared));
  out.json("log_probs", difference.log_probs ? to_json(*difference.log_probs) : "null");
  line.json("difference", out.str());
}

/// What was compared.
std::string identical_text(const replay::DataDifference& data) {
  return "identical in " + std::to_string(data.groups) +
         " rollouts, steps and states: options, samples, columns, scalars, events";
}

}  // namespace

std::string report_text(const RevisionQuestion& question, const Finding& finding,
                        replay::ReportLength length) {
  std::string text = "rlbisect: " + headline(question, finding, length);
  text += "good       " + revision_line(finding.good);
  text += "bad        " + revision_line(finding.bad);
  if (!finding.says(finding.noise)) text += "noise      " + finding.noise + "\n";
  if (finding.evidence) text += "compared   " + criterion_text(question, finding, length) + "\n";
  text += "runs       " + runs_text(finding) + "\n";
  text += skips_text(finding, length);
  if (finding.undrilled.size() > 0) text += "origin     " + finding.undrilled + "\n";
  const std::string command = reproduce(question, finding);
  if (!finding.drilled) return text + "reproduce  " + command + "\n";
  return text + "\n" +
         dumps_text(*finding.drilled, finding.sides.first, finding.sides.second, command, length);
}

std::string dumps_text(const replay::DumpsDifference& difference, const std::string& name_a,
                       const std::string& name_b, const std::string& command,
                       replay::ReportLength length) {
  if (difference.identical()) {
    std::string text = identical_text(difference.data) + "\n";
    for (const std::string& note : difference.notes) text += note + "\n";
    return text + "\n  " + command + "\n";
  }
  if (difference.origin() == nullptr) {
    const bool all = length == replay::ReportLength::kAll;
    return diff_text(difference, diff_verdict(difference), command, all);
  }
  const std::string first = first_value_text(difference);
  return first + (first.empty() ? "" : "\n") +
         step_difference_report(difference.events->step, name_a, name_b, command,
                                {difference.causes, difference.element, length});
}

std::string report_json(const RevisionQuestion& question, const Finding& finding) {
  JsonLine line;
  line.text("schema", "rlreplay.bisect/1");
  const bool single = finding.confirmed && finding.suspects.size() == 1;
  single ? line.text("culprit", finding.suspects[0].id) : line.null("culprit");
  line.json("interval", ids_json(finding.suspects)).boolean("confirmed", finding.confirmed);
  line.integer("runs", static_cast<int64_t>(count(finding, Origin::kRun)));
  line.json("purposes", purposes_json(finding));
  line.integer("cached", static_cast<int64_t>(count(finding, Origin::kEqualContent)));
  line.integer("stored", static_cast<int64_t>(count(finding, Origin::kStored)));
  line.json("skipped", skips_json(finding));
  line.integer("culprit_runs", static_cast<int64_t>(finding.culprit_runs));
  line.integer("parent_runs", static_cast<int64_t>(finding.parent_runs));
  line.json("merges", ids_json(finding.merges));
  line.json("contradictions", trials_json(finding.contradictions));
  line.integer("not_run", static_cast<int64_t>(finding.not_run));
  const auto metric = metric_of(question, finding);
  metric ? line.text("metric", *metric) : line.null("metric");
  line.number("tolerance", question.plan.criterion.tolerance);
  line.text("good", finding.good.id).text("bad", finding.bad.id);
  add_difference(line, finding.culprit ? &*finding.culprit : nullptr);
  const replay::Origin* origin = finding.drilled ? finding.drilled->origin() : nullptr;
  line.json("origin", origin != nullptr ? replay::origin_json(*origin) : "null");
  if (!finding.pins.empty()) line.json("pins", pins_json(finding));
  if (!finding.inside.empty()) {
    line.json("dependency", dependency_json(finding.inside.front()));
    line.json("dependencies", json_list(finding.inside, dependency_json));
  }
  if (!finding.noise.empty()) line.text("noise", finding.noise);
  if (finding.confidence) line.number("confidence", finding.confidence);
  finding.reason.empty() ? line.null("reason") : line.text("reason", finding.reason);
  return line.text("reproduce", reproduce(question, finding)).str();
}

std::string verdict_json(const Judgement& judgement) {
  JsonLine line;
  line.text("schema", "rlreplay.verdict/1").text("verdict", to_string(judgement.verdict));
  line.text("reason", judgement.reason);
  add_difference(line, &judgement);
  return line.str();
}

}  // namespace rlreplay::bisect
