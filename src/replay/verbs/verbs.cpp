#include "src/replay/verbs/verb.h"

namespace rlreplay::replay {

void add_verbs(CLI::App& program, VerbRun& chosen, const std::vector<std::string>& behind_dashes) {
  add_capture(program, chosen, behind_dashes);
  add_train(program, chosen);
  add_rollout(program, chosen);
  add_layouts(program, chosen);
  add_why(program, chosen);
  add_score(program, chosen);
  add_show(program, chosen);
  add_verify(program, chosen);
  add_diff(program, chosen);
  add_doctor(program, chosen);
  add_objective(program, chosen);
  add_mismatch(program, chosen);
  add_import(program, chosen);
  add_export(program, chosen);
  add_seal(program, chosen);
  add_upgrade(program, chosen);
  add_strip(program, chosen);
  add_pack(program, chosen);
  add_golden(program, chosen);
  add_tokenize(program, chosen);
}

}  // namespace rlreplay::replay
