#pragma once

#include <functional>
#include <mutex>
#include <thread>

#include "src/base/descriptor.h"
#include "src/base/error.h"
#include "src/base/interrupt.h"

namespace rlreplay::replay {

/// While it lives, a signal ends the program with one sentence and its exit code, instead of in
/// silence. No stack is unwound, but what is unfinished is undone, which a second signal does not
/// end; an act before that it does. Made before the first thread.
class EndOnSignal {
 public:
  explicit EndOnSignal(bool json, const char* program = "rlreplay");
  ~EndOnSignal();
  EndOnSignal(const EndOnSignal&) = delete;
  EndOnSignal& operator=(const EndOnSignal&) = delete;

  /// What is done before the end while it lives, by another thread, and the sentence for it.
  class Before {
   public:
    Before(EndOnSignal& end, std::function<Error()> act);
    ~Before();
    Before(const Before&) = delete;
    Before& operator=(const Before&) = delete;

   private:
    EndOnSignal& end_;
  };

 private:
  void wait(bool json, const char* program);
  Error last_words();

  Interrupt interrupt_;
  Descriptor done_;  // an event that ends the thread
  std::mutex mutex_;
  std::function<Error()> before_;
  std::thread thread_;
};

}  // namespace rlreplay::replay
