#include "src/replay/doctor/diagnosis.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "src/base/error.h"

namespace rlreplay::replay {
namespace {

constexpr int kFinding = 1;

/// The place of a rule in the table.
auto order(std::string_view id) {
  return std::ranges::find(doctor_rules(), id, &DoctorRule::id) - doctor_rules().begin();
}

}  // namespace

std::string_view to_string(RuleStatus status) {
  switch (status) {
    case RuleStatus::kPass:
      return "pass";
    case RuleStatus::kFail:
      return "fail";
    case RuleStatus::kNotApplicable:
      return "not applicable";
  }
  return "?";
}

void DoctorFinding::add_place(std::string place) {
  ++count;
  if (places.size() < kMostPlaces) places.push_back(std::move(place));
}

void Diagnosis::add(DoctorFinding finding) {
  finding.count = std::max(finding.count, finding.places.size());
  if (finding.where.empty() && !finding.places.empty()) finding.where = finding.places.front();
  findings_.push_back(std::move(finding));
}

void Diagnosis::not_applicable(std::string_view rule, std::string reason) {
  reasons_.emplace(rule, std::move(reason));
}

bool Diagnosis::failed(std::string_view rule) const {
  return std::ranges::any_of(findings_, [&](const auto& one) { return one.rule == rule; });
}

void Diagnosis::sort() {
  std::ranges::stable_sort(findings_, {}, [](const DoctorFinding& finding) {
    return std::tuple(!finding.symptom_of.empty(), -static_cast<int>(finding.severity),
                      order(finding.rule));
  });
}

std::vector<RuleOutcome> Diagnosis::outcomes() const {
  std::vector<RuleOutcome> out;
  for (const DoctorRule& rule : doctor_rules()) {
    RuleOutcome& one = out.emplace_back(RuleOutcome{&rule});
    if (failed(rule.id)) {
      one.status = RuleStatus::kFail;
    } else if (const auto found = reasons_.find(rule.id); found != reasons_.end()) {
      one.status = RuleStatus::kNotApplicable;
      one.reason = found->second;
    }
  }
  return out;
}

size_t Diagnosis::count(Severity severity) const {
  return static_cast<size_t>(std::ranges::count(findings_, severity, &DoctorFinding::severity));
}

size_t Diagnosis::count(RuleStatus status) const {
  return static_cast<size_t>(std::ranges::count(outcomes(), status, &RuleOutcome::status));
}

int Diagnosis::code() const {
  const bool damaged = std::ranges::any_of(findings_, &DoctorFinding::damaged);
  if (damaged) return exit_code(ErrorCode::kCorrupt);
  return count(Severity::kError) > 0 ? kFinding : 0;
}

}  // namespace rlreplay::replay
