#pragma once

#include <optional>
#include <utility>

#include <sys/types.h>

#include "src/base/process.h"

namespace rlreplay {

/// One owner of one process that this one has started. Its id is nobody else's until it is reaped:
/// here, or by who waits for any child and releases it then.
class ChildProcess {
 public:
  /// Starts it. Errors: kEnvironment, as `spawn`.
  ChildProcess(const Command& command, const SpawnOptions& options)
      : id_(spawn(command, options)), leads_(options.own_group) {}
  /// Kills it, with the group that it leads, unless its end is known; and reaps it.
  ~ChildProcess() { end(); }
  ChildProcess(ChildProcess&& other) noexcept
      : id_(std::exchange(other.id_, -1)), leads_(other.leads_), status_(other.status_) {}
  ChildProcess& operator=(ChildProcess&&) = delete;

  pid_t id() const { return id_; }
  /// Whether it has ended. It is not reaped: what it leads can still be sent a signal.
  [[nodiscard]] bool has_ended() const;
  /// To it, or to all of the group that it leads.
  void send(int signal) const;
  /// Its wait status if it has ended; reaps it then. Not for one that was given up, nor `wait`.
  [[nodiscard]] std::optional<int> take_status();
  /// Waits until it has ended, and reaps it; its wait status. Of one that somebody else has reaped
  /// that of a command that could not be run: how it ended nobody knows.
  [[nodiscard]] int wait();
  /// Gives it up: it was reaped elsewhere, or nobody will wait for it.
  void release() { id_ = -1; }

 private:
  void end();

  pid_t id_ = -1;
  bool leads_ = false;
  std::optional<int> status_;  // once it is reaped
};

}  // namespace rlreplay
