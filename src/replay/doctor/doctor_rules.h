#pragma once

#include <span>
#include <string_view>

namespace rlreplay::replay {

/// How bad what a rule finds is. An error ends the program with another code than 0.
enum class Severity { kNote, kWarning, kError };

[[nodiscard]] std::string_view to_string(Severity severity);

/// A check with a name that does not change.
struct DoctorRule {
  std::string_view id;  // RD801
  Severity severity;    // at most that of its findings
  std::string_view question;
  std::string_view limit;   // what is expected
  std::string_view source;  // which guide says so, or that it is derived
  std::string_view fix;
  std::string_view explanation;
};

/// All of them, causes before what follows from them.
[[nodiscard]] std::span<const DoctorRule> doctor_rules();

/// Errors: kUsage where there is none of this id.
[[nodiscard]] const DoctorRule& find_doctor_rule(std::string_view id);

}  // namespace rlreplay::replay
