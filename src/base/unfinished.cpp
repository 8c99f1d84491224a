#include "src/base/unfinished.h"

#include <mutex>
#include <utility>

namespace rlreplay {
namespace {

struct List {
  std::mutex mutex;
  std::list<std::function<void()>> undos;
};

/// Never destroyed: a thread may end the program while others return from main.
List& list() {
  static List* const out = new List;
  return *out;
}

}  // namespace

Unfinished::Unfinished(std::function<void()> undo) {
  std::lock_guard lock(list().mutex);
  place_ = list().undos.insert(list().undos.end(), std::move(undo));
}

Unfinished::~Unfinished() {
  if (!listed_) return;
  std::lock_guard lock(list().mutex);
  list().undos.erase(place_);
}

void Unfinished::finish(const std::function<void()>& last) {
  std::lock_guard lock(list().mutex);
  last();
  list().undos.erase(place_);
  listed_ = false;
}

bool undo_unfinished() {
  list().mutex.lock();  // for good
  auto& undos = list().undos;
  for (auto it = undos.rbegin(); it != undos.rend(); ++it) (*it)();
  return !undos.empty();
}

}  // namespace rlreplay
