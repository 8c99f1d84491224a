#pragma once

#include <signal.h>

#include "src/base/descriptor.h"

namespace rlreplay {

/// While it lives, SIGINT, SIGTERM and SIGHUP do not end the process: they are kept until somebody
/// asks. One that was ignored before stays ignored. Made before the first thread, so that no thread
/// takes them.
class Interrupt {
 public:
  /// Errors: kEnvironment.
  Interrupt();
  /// Drops the signals that came.
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  /// Readable as soon as there is a signal, and from then on.
  int fd() const { return fd_.get(); }
  /// The signal that came, or 0.
  int signal() const;
  /// The signal that came, or 0; it is forgotten, so that the next one can be told.
  int take() const;
  /// Waits for a signal, or until `done` is readable; whether a signal came first.
  [[nodiscard]] bool comes_before(const Descriptor& done) const;
  /// From now on a signal ends the process, as if this object were not there. For the thread that
  /// has seen one and is about to end the process itself.
  void let_next_end() const;

 private:
  sigset_t signals_, old_;
  Descriptor fd_;
};

/// Whether a signal has come that an Interrupt of this process keeps.
[[nodiscard]] bool interrupt_is_pending();

/// Writing where nobody reads any more is an error of the write from now on, not the process's end.
void ignore_broken_pipes();

}  // namespace rlreplay
