#include "src/bisect/report_files.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "src/base/terminal.h"
#include "src/base/words.h"
#include "src/bisect/divergence_page.h"
#include "src/bisect/markup.h"
#include "src/bisect/report.h"

namespace rlreplay::bisect {
namespace {

using measure::Metric;

std::string table_cell(std::string text) {
  std::string out;
  for (const char c : terminal_text(text)) {
    if (c == '|' || c == '\\' || c == '`' || c == '<') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

/// The last judgement of each revision that was judged, by hash.
std::map<std::string, Judgement> judged_of(const Finding& finding) {
  std::map<std::string, Judgement> out;
  for (const Trial& trial : finding.trials) out[trial.revision.id] = trial.judgement;
  return out;
}

/// A cell a revision, the oldest first; red, green, yellow, or grey where none was run.
std::string strip_html(const Finding& finding) {
  const auto judged = judged_of(finding);
  std::string out;
  for (const Revision& revision : finding.history) {
    const auto at = judged.find(revision.id);
    const bool culprit =
        std::ranges::find(finding.suspects, revision.id, &Revision::id) != finding.suspects.end();
    const std::string verdict =
        at == judged.end() ? "unknown" : std::string(to_string(at->second.verdict));
    const std::string reason = at == judged.end() ? "not run" : at->second.reason;
    out += "<i class=\"" + verdict + (culprit ? " culprit" : "") + "\" title=\"" +
           markup_text(revision.short_id() + " " + revision.subject + ": " + reason) + "\"></i>";
  }
  return "<p class=\"strip\">" + out + "</p>\n";
}

struct Bounds {
  double low = INFINITY, high = -INFINITY;
};

std::string line_svg(const Metric& metric, const Bounds& bounds, const char* colour) {
  constexpr double kWidth = 640, kHeight = 160;
  std::string points;
  const double steps = std::max<double>(1, static_cast<double>(metric.values.size()) - 1);
  const double height = bounds.high > bounds.low ? bounds.high - bounds.low : 1;
  for (size_t i = 0; i < metric.values.size(); ++i) {
    const auto& value = metric.values[i];
    if (!value.text.empty() || value.nonfinite()) continue;
    points += formatted("%.1f", 10 + kWidth * static_cast<double>(i) / steps) + "," +
              formatted("%.1f", 10 + kHeight * (1 - (value.number - bounds.low) / height)) + " ";
  }
  return "<polyline fill=\"none\" stroke=\"" + std::string(colour) + "\" points=\"" + points +
         "\"/>";
}

/// The number that differs, step by step, of the good end and the culprit.
std::string curve_html(const Finding& finding) {
  if (!finding.culprit || !finding.culprit->difference) return {};
  const std::string& name = finding.culprit->difference->metric;
  const Metric* good = measure::find_metric(finding.metrics.first, name);
  const Metric* bad = measure::find_metric(finding.metrics.second, name);
  if (good == nullptr || bad == nullptr || good->values.size() < 2) return {};
  Bounds bounds;
  for (const Metric* metric : {good, bad}) {
    for (const auto& value : metric->values) {
      if (!value.text.empty() || value.nonfinite()) continue;
      bounds.low = std::min(bounds.low, value.number);
      bounds.high = std::max(bounds.high, value.number);
    }
  }
  return "<h2>" + markup_text(name) +
         " by step</h2>\n<svg viewBox=\"0 0 660 180\" role=\"img\" aria-label=\"" +
         markup_text(name) + " of the good end and the culprit\">" +
         line_svg(*good, bounds, "#1a7f37") + line_svg(*bad, bounds, "#cf222e") +
         "</svg>\n<p>green: the good end, red: the culprit; from " +
         measure::MetricValue{bounds.low}.describe() + " to " +
         measure::MetricValue{bounds.high}.describe() + "</p>\n";
}

std::string rows_html(const Finding& finding) {
  std::string out;
  for (const Trial& trial : finding.trials) {
    const std::string verdict(to_string(trial.judgement.verdict));
    out += "<tr><td><code>" + trial.revision.short_id() + "</code><td>" +
           markup_text(trial.revision.subject) + "<td>" + std::string(to_string(trial.purpose)) +
           "<td class=\"" + verdict + "\">" + verdict + "<td>" +
           markup_text(trial.judgement.reason) + "<td>" + formatted("%.1f", trial.seconds) + "\n";
  }
  return "<table><tr><th>revision<th>subject<th>why<th>verdict<th>reason<th>seconds\n" + out +
         "</table>\n";
}

/// What was found, in a few words; unlike a message of the program it has no colon.
std::string title_of(const Finding& finding) {
  if (finding.confirmed && finding.suspects.size() == 1) {
    return "culprit " + finding.suspects[0].short_id() + " " + finding.suspects[0].subject;
  }
  return finding.confirmed ? "one of " + counted(finding.suspects.size(), "revision")
                           : "no culprit";
}

}  // namespace

std::string report_markdown(const RevisionQuestion& question, const Finding& finding) {
  std::string text =
      "### rlbisect: " + table_cell(title_of(finding)) + "\n\n```text\n" +
      terminal_text(report_text(question, finding, replay::ReportLength::kShort)) +
      "```\n\n| revision | subject | for | verdict | reason |\n|---|---|---|---|---|\n";
  for (const Trial& trial : finding.trials) {
    text += "| " + trial.revision.short_id() + " | " + table_cell(trial.revision.subject) + " | " +
            std::string(to_string(trial.purpose)) + " | " +
            std::string(to_string(trial.judgement.verdict)) + " | " +
            table_cell(trial.judgement.reason) + " |\n";
  }
  return text;
}

std::string report_junit(const Finding& finding) {
  const auto judged = judged_of(finding);
  std::string cases;
  size_t failures = 0, skipped = 0;
  for (const Revision& revision : finding.history) {
    const auto at = judged.find(revision.id);
    if (at == judged.end()) continue;
    const std::string reason = markup_text(at->second.reason);
    cases += "  <testcase classname=\"rlbisect\" name=\"" +
             markup_text(revision.short_id() + " " + revision.subject) + "\">";
    if (at->second.verdict == Verdict::kBad) {
      cases += "<failure message=\"" + reason + "\"/>";
      ++failures;
    } else if (at->second.verdict == Verdict::kSkip) {
      cases += "<skipped message=\"" + reason + "\"/>";
      ++skipped;
    }
    cases += "</testcase>\n";
  }
  const size_t tests = static_cast<size_t>(std::ranges::count_if(
      finding.history, [&](const Revision& revision) { return judged.contains(revision.id); }));
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"rlbisect: " +
         markup_text(title_of(finding)) + "\" tests=\"" + std::to_string(tests) + "\" failures=\"" +
         std::to_string(failures) + "\" skipped=\"" + std::to_string(skipped) + "\">\n" + cases +
         "</testsuite>\n";
}

std::string report_html(const RevisionQuestion& question, const Finding& finding) {
  const std::string parted = finding.drilled ? divergence_html(*finding.drilled) : "";
  return html_page(
      title_of(finding),
      strip_html(finding) +
          "<p>the oldest at the left; green good, red bad, yellow skipped, grey not run</p>\n" +
          curve_html(finding) + parted + "<h2>Report</h2>\n<pre>" +
          markup_text(report_text(question, finding, replay::ReportLength::kAll)) +
          "</pre>\n<h2>Runs</h2>\n" + rows_html(finding));
}

}  // namespace rlreplay::bisect
