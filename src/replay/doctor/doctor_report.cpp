#include "src/replay/doctor/doctor_report.h"

#include <algorithm>
#include <vector>

#include "src/base/json_line.h"
#include "src/base/shell.h"
#include "src/base/text_table.h"
#include "src/base/words.h"

namespace rlreplay::replay {
namespace {

constexpr size_t kMostLines = 20;
constexpr size_t kColumn = 12;  // where values begin

using Lines = std::vector<std::string>;

/// "  name      value", the value in its column and wrapped there.
void add_entry(Lines& out, const std::string& name, const std::string& value) {
  std::string text = "  " + name;
  text.resize(std::max(kColumn, text.size() + 1), ' ');
  text += wrapped(one_line(value, 400), kLineWidth, kColumn);
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
}

std::string place_text(const DoctorFinding& finding) {
  const size_t others = finding.count > 0 ? finding.count - 1 : 0;
  return finding.where + (others > 0 ? ", and " + std::to_string(others) + " more" : "");
}

/// A cause has the lines that say what to do; what follows from it has one or two.
Lines finding_lines(const DoctorFinding& finding, bool all) {
  const DoctorRule& rule = find_doctor_rule(finding.rule);
  Lines out;
  const bool symptom = !finding.symptom_of.empty();
  out.push_back((symptom ? "  " : "") + std::string(to_string(finding.severity)) + " " +
                std::string(finding.rule) + ": " + finding.fact +
                (symptom ? " (follows from " + std::string(finding.symptom_of) + ")" : ""));
  add_entry(out, "observed", finding.observed);
  if (!symptom || all) add_entry(out, "limit", std::string(rule.limit));
  if (!finding.where.empty()) add_entry(out, "where", place_text(finding));
  if (!symptom || all) {
    add_entry(out, "fix", finding.fix.empty() ? std::string(rule.fix) : finding.fix);
  }
  if (!all) return out;
  add_entry(out, "source", std::string(rule.source));
  for (size_t i = 1; i < finding.places.size(); ++i) add_entry(out, "", finding.places[i]);
  if (const size_t others = finding.count - finding.places.size();
      others > 0 && !finding.places.empty()) {
    add_entry(out, "", "and " + std::to_string(others) + " more, of which no place is kept");
  }
  return out;
}

std::string verdict(const Diagnosis& diagnosis) {
  std::string out;
  for (const Severity severity : {Severity::kError, Severity::kWarning, Severity::kNote}) {
    const size_t count = diagnosis.count(severity);
    if (count == 0) continue;
    out += (out.empty() ? "" : ", ") + counted(count, to_string(severity));
  }
  return out.empty() ? "sound" : out;
}

/// "9 rules: 7 passed, 1 failed, 1 not applicable (RD802: one file without an index)".
std::string account(const Diagnosis& diagnosis) {
  std::string out = counted(doctor_rules().size(), "rule") + ": " +
                    std::to_string(diagnosis.count(RuleStatus::kPass)) + " passed, " +
                    std::to_string(diagnosis.count(RuleStatus::kFail)) + " failed, " +
                    std::to_string(diagnosis.count(RuleStatus::kNotApplicable)) + " not applicable";
  std::string reasons, last;
  for (const RuleOutcome& one : diagnosis.outcomes()) {
    if (one.status != RuleStatus::kNotApplicable) continue;
    if (one.reason == last) {
      reasons.insert(reasons.rfind(':'), ", " + std::string(one.rule->id));
    } else {
      reasons += (reasons.empty() ? "" : "; ") + std::string(one.rule->id) + ": " + one.reason;
    }
    last = one.reason;
  }
  return wrapped(out + (reasons.empty() ? "" : " (" + reasons + ")"), kLineWidth, 0);
}

int64_t bytes_of(const WeightFiles& weights) {
  int64_t bytes = 0;
  for (const WeightTensor& tensor : weights.tensors) {
    bytes += static_cast<int64_t>(tensor.stored->data.size());
  }
  return bytes;
}

/// The options that name what the weights were held against.
std::string reference_words(const WeightReference& reference) {
  if (reference.path.empty()) return "";
  std::string out = " --ref " + shell_word(reference.path);
  if (!reference.step.empty()) out += " --step " + shell_word(reference.step);
  for (const std::string& path : reference.earlier) out += " --earlier " + shell_word(path);
  return out;
}

std::string joined_lines(const Lines& lines) {
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  return out;
}

std::string finding_json(const DoctorFinding& finding) {
  const DoctorRule& rule = find_doctor_rule(finding.rule);
  JsonLine line;
  line.text("id", finding.rule)
      .text("severity", to_string(finding.severity))
      .text("fact", finding.fact)
      .text("observed", finding.observed)
      .text("limit", rule.limit)
      .text("where", finding.where)
      .json("places", json_list(finding.places))
      .text("source", rule.source)
      .text("fix", finding.fix.empty() ? std::string(rule.fix) : finding.fix);
  finding.symptom_of.empty() ? line.null("symptom_of")
                             : line.text("symptom_of", finding.symptom_of);
  return line.str();
}

std::string outcome_json(const RuleOutcome& outcome) {
  JsonLine line;
  line.text("id", outcome.rule->id).text("status", to_string(outcome.status));
  outcome.reason.empty() ? line.null("reason") : line.text("reason", outcome.reason);
  return line.str();
}

}  // namespace

std::string diagnosis_text(const WeightFiles& weights, const WeightReference& reference,
                           const Diagnosis& diagnosis, bool all) {
  Lines out = {verdict(diagnosis) + ": " + weights.path + ", " +
               counted(weights.files.size(), "file") + ", " +
               counted(weights.tensors.size(), "tensor") + ", " +
               formatted("%.1f MB", static_cast<double>(bytes_of(weights)) / 1e6)};
  const std::string rules = account(diagnosis);
  const auto rule_lines = static_cast<size_t>(std::ranges::count(rules, '\n')) + 1;
  size_t shown = 0;
  for (const DoctorFinding& finding : diagnosis.findings()) {
    const Lines lines = finding_lines(finding, all);
    const bool last = shown + 1 == diagnosis.findings().size();
    const size_t behind = rule_lines + (last ? 1 : 2);
    if (!all && shown > 0 && out.size() + lines.size() + behind > kMostLines) break;
    out.insert(out.end(), lines.begin(), lines.end());
    ++shown;
  }
  if (const size_t others = diagnosis.findings().size() - shown; others > 0) {
    out.push_back("and " + counted(others, "more finding") + ": --all lists them");
  }
  out.push_back(rules);
  if (shown > 0) {
    out.push_back("again     rlreplay doctor " + shell_word(weights.path) +
                  reference_words(reference) + (all ? " --all" : ""));
  }
  return joined_lines(out);
}

std::string diagnosis_json(const WeightFiles& weights, const WeightReference& reference,
                           const Diagnosis& diagnosis) {
  JsonLine line;
  line.text("schema", "rlreplay.doctor/1").text("checkpoint", weights.path);
  if (!reference.path.empty()) line.text("reference", reference.path);
  if (!reference.step.empty()) line.text("reference_step", reference.step);
  return line.integer("files", static_cast<int64_t>(weights.files.size()))
      .integer("tensors", static_cast<int64_t>(weights.tensors.size()))
      .integer("bytes", bytes_of(weights))
      .integer("passed", static_cast<int64_t>(diagnosis.count(RuleStatus::kPass)))
      .integer("failed", static_cast<int64_t>(diagnosis.count(RuleStatus::kFail)))
      .integer("not_applicable", static_cast<int64_t>(diagnosis.count(RuleStatus::kNotApplicable)))
      .json("findings", json_list(diagnosis.findings(), finding_json))
      .json("rules", json_list(diagnosis.outcomes(), outcome_json))
      .str();
}

std::string rules_text(std::span<const DoctorRule> rules) {
  std::string out;
  for (const DoctorRule& rule : rules) {
    out += formatted("%-7s%-9s", std::string(rule.id).c_str(),
                     std::string(to_string(rule.severity)).c_str()) +
           wrapped(rule.question, kLineWidth, 16) + "\n";
  }
  return out;
}

std::string rule_text(const DoctorRule& rule) {
  Lines out = {std::string(rule.id) + ", " + std::string(to_string(rule.severity)) + ": " +
               std::string(rule.question)};
  add_entry(out, "limit", std::string(rule.limit));
  add_entry(out, "source", std::string(rule.source));
  add_entry(out, "fix", std::string(rule.fix));
  return joined_lines(out) + "\n" + wrapped(rule.explanation, kLineWidth, 0) + "\n";
}

std::string rules_json(std::span<const DoctorRule> rules) {
  const auto one = [](const DoctorRule& rule) {
    return JsonLine()
        .text("id", rule.id)
        .text("severity", to_string(rule.severity))
        .text("question", rule.question)
        .text("limit", rule.limit)
        .text("source", rule.source)
        .text("fix", rule.fix)
        .text("explanation", rule.explanation)
        .str();
  };
  return JsonLine()
      .text("schema", "rlreplay.doctor.rules/1")
      .json("rules", json_list(rules, one))
      .str();
}

}  // namespace rlreplay::replay
