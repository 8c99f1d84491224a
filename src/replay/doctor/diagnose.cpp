#include "src/replay/doctor/diagnose.h"

#include "src/replay/doctor/checkpoint_rules.h"

namespace rlreplay::replay {
namespace {

void check_tensors(const WeightFiles& weights, Diagnosis& diagnosis) {
  check_layers(weights, diagnosis);
  check_shapes(weights, diagnosis);
  check_vocabulary(weights, diagnosis);
  check_head(weights, diagnosis);
  check_values(weights, diagnosis);
  check_types(weights, diagnosis);
}

}  // namespace

Diagnosis diagnose(const WeightFiles& weights, WeightVersions* versions) {
  Diagnosis out;
  check_files(weights, out);
  check_index(weights, out);
  if (weights.tensors.empty()) {
    for (const DoctorRule& rule : doctor_rules()) {
      if (out.failed(rule.id) || rule.id == "RD801") continue;
      out.not_applicable(rule.id, "no tensor could be read");
    }
  } else {
    check_tensors(weights, out);
    if (versions != nullptr) check_reference(weights, *versions, out);
  }
  if (versions == nullptr) out.not_applicable("RD809", "no --ref");
  weights.check_unchanged();
  if (versions != nullptr) versions->expected().check_unchanged();
  out.sort();
  return out;
}

}  // namespace rlreplay::replay
