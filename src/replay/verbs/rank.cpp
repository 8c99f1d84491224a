#include <algorithm>
#include <csignal>
#include <iterator>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "kernels/probe.h"
#include "src/base/descriptor.h"
#include "src/base/environment_error.h"
#include "src/base/error.h"
#include "src/base/interrupt.h"
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

constexpr auto kReason = 800ms;    // a rank that ends is seen to be gone in less
constexpr auto kAfterReason = 1s;  // then rank 0 has said it, or was the reason
constexpr auto kLook = 50ms;

/// Ends this process a while after a signal: a launcher that ends all ranks since one has failed
/// lets the others say which. Where rank 0 had a signal too, it stores what it has shown, and would
/// be killed once another rank is gone: this one ends after it.
class EndAfterReason {
 public:
  EndAfterReason(const Interrupt& interrupt, const engine::RankMesh& mesh)
      : interrupt_(interrupt), mesh_(mesh), done_(::eventfd(0, EFD_CLOEXEC)) {
    if (!done_) throw environment_error("cannot open an event file");
    thread_ = start_thread([this] { wait(); });
  }
  ~EndAfterReason() {
    const uint64_t one = 1;
    if (::write(done_.get(), &one, sizeof one) == sizeof one) thread_.join();
  }
  EndAfterReason(const EndAfterReason&) = delete;
  EndAfterReason& operator=(const EndAfterReason&) = delete;

 private:
  void wait() const {
    if (!interrupt_.comes_before(done_)) return;
    for (auto left = kAfterReason / kLook; left > 0;) {
      pollfd done{done_.get(), POLLIN, 0};
      if (::poll(&done, 1, static_cast<int>(kLook.count())) > 0) return;
      const bool is_storing = mesh_.is_interrupted(0) && mesh_.blamed() < 0;
      if (!is_storing) --left;
    }
    ::_exit(exit_code(ErrorCode::kInterrupted));
  }

  const Interrupt& interrupt_;
  const engine::RankMesh& mesh_;
  const Descriptor done_;
  std::thread thread_;
};

/// Serves rank 0, which reports what ends a rank. Where rank 0 itself is gone, rank 1 does, unless
/// a signal ended rank 0, which it has said.
int serve(const LaunchedRank& self) {
  ThreadPool pool(1);
  kernels::prove_arithmetic(pool);
  std::vector<Descriptor> sockets = engine::meet(self.meeting());
  std::optional<Interrupt> interrupt;  // before the first thread of this rank
  if (self.launcher != "rlreplay") interrupt.emplace();
  engine::RankMesh mesh(self.rank, std::move(sockets), 60s);
  std::optional<EndAfterReason> end;
  if (interrupt) end.emplace(*interrupt, mesh);
  try {
    engine::serve_rank(mesh, kernels::cpu_kernels());
    return 0;
  } catch (const Error& e) {
    if (mesh.blamed() != 0) return exit_code(e.code());
    if (mesh.is_interrupted(0)) return exit_code(ErrorCode::kInterrupted);
    if (self.rank != 1) return exit_code(e.code());
    // A launcher's signal may come while the sentence is on its way.
    for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, SIG_IGN);
    throw;
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
