#include "src/replay/verbs/end_on_signal.h"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <future>
#include <memory>
#include <utility>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "src/base/environment_error.h"
#include "src/base/report_error.h"
#include "src/base/thread_pool.h"
#include "src/base/unfinished.h"
#include "src/replay/verbs/verb.h"

namespace rlreplay::replay {
namespace {

/// Whether what made a launcher send the signal ends the work itself, shortly.
bool reason_comes(int done) {
  pollfd file{done, POLLIN, 0};
  return ::poll(&file, 1, static_cast<int>(time_for_reason().count())) > 0;
}

/// Says an error and hands on what was printed, if who reads it does so soon: another thread may
/// hold the stream, in a write to a full pipe.
void report_to_who_reads(bool json, const char* program, const Error& error) {
  using namespace std::chrono_literals;
  const auto said = std::make_shared<std::promise<void>>();
  try {
    start_thread([json, program, error, said] {
      if (::isatty(STDERR_FILENO) != 0) std::fputs("\r\033[K", stderr);  // over a bar, or ^C
      static_cast<void>(report_error(program, json, error));
      std::fflush(stdout);  // of all files it would wait for a line of stdin that is being read
      said->set_value();
    }).detach();
    said->get_future().wait_for(3s);
  } catch (const Error&) {
    // Without a thread nothing is said, rather than waited for.
  }
}

}  // namespace

EndOnSignal::EndOnSignal(bool json, const char* program) : done_(::eventfd(0, EFD_CLOEXEC)) {
  if (!done_) throw environment_error("no event file could be opened");
  thread_ = start_thread([this, json, program] { wait(json, program); });
}

EndOnSignal::~EndOnSignal() {
  const uint64_t one = 1;
  if (::write(done_.get(), &one, sizeof one) == sizeof one) thread_.join();
}

void EndOnSignal::wait(bool json, const char* program) {
  if (!interrupt_.comes_before(done_) || reason_comes(done_.get())) return;
  mutex_.lock();  // for good: whoever would end an act waits for the program's end
  if (before_) interrupt_.let_next_end();  // an act may take long; undoing must come to its end
  const Error error = last_words();
  report_to_who_reads(json, program, error);
  ::_exit(exit_code(error.code()));
}

Error EndOnSignal::last_words() {
  if (before_) {
    const Error out = before_();
    static_cast<void>(undo_unfinished());  // `before_` says what is told
    return out;
  }
  const bool undone = undo_unfinished();
  return {ErrorCode::kInterrupted,
          undone ? "interrupted; what it had begun is removed" : "interrupted"};
}

EndOnSignal::Before::Before(EndOnSignal& end, std::function<Error()> act) : end_(end) {
  const std::lock_guard lock(end.mutex_);
  end.before_ = std::move(act);
}

EndOnSignal::Before::~Before() {
  const std::lock_guard lock(end_.mutex_);
  end_.before_ = {};
}

}  // namespace rlreplay::replay
