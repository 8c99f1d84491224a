#include <algorithm>
#include <csignal>
#include <iterator>
#include <optional>

#include "kernels/probe.h"
#include "src/base/error.h"
#include "src/base/thread_pool.h"
#include "src/engine/rank_mesh.h"
#include "src/engine/serve_rank.h"
#include "src/replay/run/launched_rank.h"
#include "src/replay/verbs/verb.h"

namespace rlreplay::replay {
namespace {

using namespace std::chrono_literals;

/// The verbs whose ranks a launcher may start; the others are as many programs.
constexpr std::string_view kVerbsOfRanks[] = {"capture", "layouts", "rollout", "train"};

/// Serves rank 0, which reports what ends a rank. Where rank 0 itself is gone, rank 1 does.
int serve(const LaunchedRank& self) {
  ThreadPool pool(1);
  kernels::prove_arithmetic(pool);
  engine::RankMesh mesh(self.rank, engine::meet(self.meeting()), 60s);
  try {
    engine::serve_rank(mesh, kernels::cpu_kernels());
    return 0;
  } catch (const Error& e) {
    if (mesh.blamed() == 0 && self.rank == 1) throw;
    return exit_code(e.code());
  }
}

}  // namespace

std::optional<int> serve_launched_rank(std::string_view word) {
  if (word == kRankWord) {
    // The terminal's signals are for rank 0, with which this process ends.
    for (const int signal : {SIGINT, SIGHUP}) std::signal(signal, SIG_IGN);
  } else if (std::ranges::find(kVerbsOfRanks, word) == std::end(kVerbsOfRanks)) {
    return std::nullopt;
  }
  const auto self = launched_rank();
  if (self && self->rank > 0) return serve(*self);
  if (word != kRankWord) return std::nullopt;
  throw Error(ErrorCode::kUsage, "a rank is started by the --layout of another rlreplay");
}

}  // namespace rlreplay::replay
