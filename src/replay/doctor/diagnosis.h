#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "src/replay/doctor/doctor_rules.h"

namespace rlreplay::replay {

/// What a rule found.
struct DoctorFinding {
  std::string_view rule;
  std::string fact;      // one sentence without its full stop
  std::string observed;  // what stands against the rule's limit
  std::string where;     // a file, a tensor, an element of one; the first of several
  Severity severity = Severity::kError;
  std::string fix = {};                  // where it is more than the rule's
  std::string_view symptom_of = {};      // the rule of which this follows
  std::vector<std::string> places = {};  // where there are several, the first of them
  bool damaged = false;                  // input that is damaged or lacks a file
  size_t count = 0;                      // of places, those that are not kept too

  /// At most this many places are kept.
  static constexpr size_t kMostPlaces = 10000;
  /// Counts a place, and keeps it where few are kept.
  void add_place(std::string place);
};

enum class RuleStatus { kPass, kFail, kNotApplicable };

[[nodiscard]] std::string_view to_string(RuleStatus status);

/// How one rule ended.
struct RuleOutcome {
  const DoctorRule* rule = nullptr;
  RuleStatus status = RuleStatus::kPass;
  std::string reason = {};  // why it could not be asked
};

/// All that the rules found, and which of them could be asked.
class Diagnosis {
 public:
  /// `where` becomes the first of the places, where there are any.
  void add(DoctorFinding finding);
  void not_applicable(std::string_view rule, std::string reason);
  [[nodiscard]] bool failed(std::string_view rule) const;
  /// Errors first, what follows from others behind all that does not.
  void sort();

  const std::vector<DoctorFinding>& findings() const { return findings_; }
  /// Of every rule, in the order of the table.
  std::vector<RuleOutcome> outcomes() const;
  size_t count(Severity severity) const;
  size_t count(RuleStatus status) const;
  /// 0 nothing or less than an error, 1 an error, 3 damaged input.
  int code() const;

 private:
  std::vector<DoctorFinding> findings_;
  std::map<std::string_view, std::string> reasons_;
};

}  // namespace rlreplay::replay
