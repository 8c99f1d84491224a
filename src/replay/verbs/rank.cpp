#include <algorithm>
#include <csignal>
#include <iterator>
#include <optional>

#include <unistd.h>

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

constexpr auto kReason = 800ms;       // a rank that ends is seen to be gone in less
constexpr unsigned kAfterReason = 1;  // seconds: then rank 0 has said it, or was the reason

/// Ends this process later; a launcher may pass on a signal that all ranks had already.
void end_later(int) { ::alarm(kAfterReason); }

/// A launcher that ends all ranks since one has failed lets the others say which.
void outlive_signals() {
  for (const int signal : {SIGINT, SIGTERM}) {
    struct sigaction action {};
    action.sa_handler = end_later;
    action.sa_flags = SA_RESTART;
    ::sigaction(signal, &action, nullptr);
  }
}

/// Serves rank 0, which reports what ends a rank. Where rank 0 itself is gone, rank 1 does.
int serve(const LaunchedRank& self) {
  ThreadPool pool(1);
  kernels::prove_arithmetic(pool);
  engine::RankMesh mesh(self.rank, engine::meet(self.meeting()), 60s);
  if (self.launcher != "rlreplay") outlive_signals();
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

std::chrono::milliseconds time_for_reason() {
  try {
    return launched_rank() ? kReason : 0ms;
  } catch (const Error&) {  // of another verb, which has no ranks
    return 0ms;
  }
}

}  // namespace rlreplay::replay
