#include <catch2/catch.hpp>
#include <iostream>

#include "kernels/kernels.h"
#include "src/replay/gate/golden.h"
#include "src/replay/rerun/golden_run.h"
#include "tests/environment.h"

/// The project's own golden run by every portable kernel set of this machine: the reference in
/// plain loops, and each SIMD target. The program itself runs the fastest.
using namespace rlreplay;

namespace {

void check_set(const kernels::KernelSet& set, const gate::Golden& golden,
               const replay::RunOptions& options) {
  CAPTURE(set.name);
  ThreadPool pool(2);
  const GoldenEntries now = replay::golden_run({set, pool}, options);
  auto differences = compare_golden(golden.values, now);
  if (options.steps == 1) {  // what the other steps give is not there
    std::erase_if(differences, [](const GoldenDifference& d) { return !d.now; });
  }
  CHECK(now.size() >= golden.values.size() / 3);
  CHECK(to_string(differences) == "");
  std::cout << "gated: " << set.name << ", " << now.size() << " values\n";
}

}  // namespace

TEST_CASE("every portable kernel set gives the project's golden run") {
  const gate::Golden golden = gate::read(RLREPLAY_GOLDEN "/run.txt");
  const replay::RunOptions options = replay::options_of(golden.options);
  for (const kernels::KernelSet& set : kernels::cpu_kernel_sets()) check_set(set, golden, options);
  replay::RunOptions brief = options;
  if (!test::full()) brief.steps = 1;  // plain loops are slow
  check_set(kernels::reference_kernels(), golden, brief);
}
