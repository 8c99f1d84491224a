#include "src/replay/exchange/import_check.h"

#include "format/foreign/dump_check.h"
#include "src/replay/exchange/import_policy_loss.h"
#include "src/replay/exchange/import_rollout.h"
#include "src/replay/exchange/import_train.h"

namespace rlreplay::replay {

using foreign::DumpKind;

void check_importable(foreign::TorchFile& file) {
  const DumpKind kind = dump_kind(file.tree(), file.root());
  try {
    if (kind == DumpKind::kTrainRank || kind == DumpKind::kTrainSamples) check_train_file(file);
    if (kind == DumpKind::kPolicyLoss) PolicyLossRows().add(file, file.path());
    if (kind == DumpKind::kRollout) check_rollout_file(file);
  } catch (const Error& error) {
    const std::string& where = error.where();
    if (where.find(file.path()) != where.npos) throw;
    throw error.at(file.path() + (where.empty() ? "" : ": ") + where);
  }
}

}  // namespace rlreplay::replay
