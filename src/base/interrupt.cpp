#include "src/base/interrupt.h"

#include <algorithm>
#include <cerrno>
#include <string>

#include <poll.h>
#include <sys/signalfd.h>
#include <time.h>

#include "src/base/environment_error.h"

namespace rlreplay {

namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

/// Whether who started this process wants it to be deaf to a signal, as nohup does.
bool is_ignored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

Interrupt::Interrupt() {
  sigemptyset(&signals_);
  for (const int signal : kSignals) {
    if (!is_ignored(signal)) sigaddset(&signals_, signal);
  }
  fd_ = Descriptor(::signalfd(-1, &signals_, SFD_CLOEXEC));
  if (!fd_) {
    throw environment_error("cannot wait for signals");
  }
  pthread_sigmask(SIG_BLOCK, &signals_, &old_);
}

Interrupt::~Interrupt() {
  while (take() != 0) {
  }
  pthread_sigmask(SIG_SETMASK, &old_, nullptr);
}

int Interrupt::signal() const {
  // Nobody reads the descriptor, so what has come stays pending.
  sigset_t pending;
  sigpending(&pending);
  for (const int signal : kSignals) {
    if (sigismember(&signals_, signal) == 1 && sigismember(&pending, signal) == 1) return signal;
  }
  return 0;
}

int Interrupt::take() const {
  const timespec now{};
  const int signal = sigtimedwait(&signals_, nullptr, &now);
  return signal > 0 ? signal : 0;
}

bool Interrupt::comes_before(const Descriptor& done) const {
  pollfd files[] = {{fd_.get(), POLLIN, 0}, {done.get(), POLLIN, 0}};
  while (::poll(files, 2, -1) < 0) {
    if (errno != EINTR) return false;
  }
  return files[1].revents == 0 && files[0].revents != 0;
}

void Interrupt::let_next_end() const {
  while (take() != 0) {
  }
  pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr);
}

bool interrupt_is_pending() {
  sigset_t pending;
  sigpending(&pending);
  return std::ranges::any_of(kSignals, [&](int s) { return sigismember(&pending, s) == 1; });
}

void ignore_broken_pipes() { ::signal(SIGPIPE, SIG_IGN); }

}  // namespace rlreplay
