#include "src/replay/verbs/print_operation.h"

#include <iostream>

#include "src/base/thread_pool.h"
#include "src/replay/exchange/any_dump.h"
#include "src/replay/rerun/operation_replay.h"

namespace rlreplay::replay {

bool print_operation(const OperationQuestion& question) {
  const engine::StepEvent event = engine::parse_step_event(question.event);
  const auto fastest = std::string(kernels::cpu_kernels().name);
  std::vector<const kernels::KernelSet*> sets = {
      &kernels_named(question.kernels.empty() ? fastest : question.kernels)};
  const kernels::KernelSet* against = &kernels_named(question.against);
  if (against != sets.front()) sets.push_back(against);
  check_imported(question.dump);
  const RecordedRun record(question.dump);
  ThreadPool pool(processors());
  const OperationReplay found = replay_operation(record, event, sets, pool);
  std::cout << (question.json ? operation_json(found, question.dump) + "\n"
                              : operation_text(found));
  return found.identical();
}

}  // namespace rlreplay::replay
