#pragma once

#include <span>
#include <string>

#include "src/replay/doctor/diagnosis.h"
#include "src/replay/doctor/weight_versions.h"

namespace rlreplay::replay {

/// A diagnosis for people: verdict, causes, what follows from them, what was asked. At most 20
/// lines where not `all`.
[[nodiscard]] std::string diagnosis_text(const WeightFiles& weights,
                                         const WeightReference& reference,
                                         const Diagnosis& diagnosis, bool all);
[[nodiscard]] std::string diagnosis_json(const WeightFiles& weights,
                                         const WeightReference& reference,
                                         const Diagnosis& diagnosis);

/// The table of rules, or all that is said of one.
[[nodiscard]] std::string rules_text(std::span<const DoctorRule> rules);
[[nodiscard]] std::string rule_text(const DoctorRule& rule);
[[nodiscard]] std::string rules_json(std::span<const DoctorRule> rules);

}  // namespace rlreplay::replay
