#pragma once

#include <string>
#include <thread>

#include "src/base/interrupt.h"

namespace rlreplay::replay {

/// While it lives, a signal ends the program at once, with one sentence and its exit code, instead
/// of in silence. Nothing is unwound: what a dump has acknowledged is stored, the rest is not.
/// Made before the first thread.
class EndOnSignal {
 public:
  /// `left`: what is left where, for the sentence.
  EndOnSignal(bool json, std::string left, std::string where);
  ~EndOnSignal();
  EndOnSignal(const EndOnSignal&) = delete;
  EndOnSignal& operator=(const EndOnSignal&) = delete;

 private:
  Interrupt interrupt_;
  int done_ = -1;  // an event that ends the thread
  std::thread thread_;
};

}  // namespace rlreplay::replay
