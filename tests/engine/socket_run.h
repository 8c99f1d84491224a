#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "src/base/error.h"
#include "src/base/temporary_folder.h"
#include "src/engine/rank_meeting.h"
#include "src/engine/socket_ranks.h"

/// Ranks that sockets connect, as processes or, for what needs common memory, as threads.
namespace rlreplay::engine::test {

inline RankMeeting meeting_in(const std::string& folder, int rank, int size) {
  RankMeeting out;
  out.rank = rank;
  out.size = size;
  out.addresses = {"unix:" + folder + "/0"};
  out.token = "secret";
  out.program = "test";
  out.patience = std::chrono::seconds(60);
  return out;
}

struct SocketRun {
  std::chrono::milliseconds silence{60'000};
};

/// One rank's part. Errors: as `work` and as the mesh.
inline void run_socket_rank(const RankMeeting& meeting, const Layout& layout,
                            const std::function<void(const Ranks&)>& work,
                            const SocketRun& run = {}) {
  RankMesh mesh(meeting.rank, meet(meeting), run.silence);
  mesh.begin(layout, run.silence);
  const SocketRanks ranks(mesh, layout);
  try {
    work(ranks.ranks());
  } catch (const Error& e) {
    mesh.fail(e);
    throw;
  }
}

/// Every rank a thread with sockets of its own. Throws what rank 0 has thrown.
inline void run_socket_threads(const Layout& layout,
                               const std::function<void(const Ranks&)>& work) {
  const TemporaryFolder folder("rlreplay-ranks");
  std::optional<Error> first;
  const auto run = [&](int rank) {
    try {
      run_socket_rank(meeting_in(folder.path(), rank, layout.ranks()), layout, work);
    } catch (const Error& e) {
      if (rank == 0) first = e;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < layout.ranks(); ++i) threads.emplace_back(run, i);
  run(0);
  for (std::thread& t : threads) t.join();
  if (first) throw Error(*first);
}

/// Every rank but the first a process of its own. `ids`: filled with theirs before the work begins.
/// Throws what rank 0 has thrown.
inline void run_forked_ranks(const Layout& layout, const std::function<void(const Ranks&)>& work,
                             std::vector<pid_t>* ids = nullptr, const SocketRun& run = {}) {
  const TemporaryFolder folder("rlreplay-ranks");
  std::vector<pid_t> children;
  for (int i = 1; i < layout.ranks(); ++i) {
    const pid_t child = ::fork();
    if (child < 0) std::abort();
    if (child == 0) {
      try {
        run_socket_rank(meeting_in(folder.path(), i, layout.ranks()), layout, work, run);
      } catch (const std::exception&) {
        ::_exit(1);
      }
      ::_exit(0);
    }
    children.push_back(child);
  }
  if (ids != nullptr) *ids = children;
  std::exception_ptr error;
  try {
    run_socket_rank(meeting_in(folder.path(), 0, layout.ranks()), layout, work, run);
  } catch (...) {
    error = std::current_exception();
  }
  for (const pid_t child : children) {
    if (error) ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace rlreplay::engine::test
