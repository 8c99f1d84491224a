#include "src/base/unfinished.h"

#include <mutex>
#include <type_traits>
#include <utility>

namespace rlreplay {
namespace {

struct List {
  std::mutex mutex;
  Unfinished* latest = nullptr;
};

// There before any code runs, and never destroyed: a thread may end the program while others return
// from main.
constinit List all_unfinished;
static_assert(std::is_trivially_destructible_v<List>);

}  // namespace

Unfinished::Unfinished(std::function<void()> undo) : Unfinished(std::move(undo), [] {}) {}

Unfinished::Unfinished(std::function<void()> undo, const std::function<void()>& begin)
    : undo_(std::move(undo)) {
  const std::lock_guard lock(all_unfinished.mutex);
  begin();
  earlier_ = std::exchange(all_unfinished.latest, this);
  if (earlier_ != nullptr) earlier_->later_ = this;
}

Unfinished::~Unfinished() {
  if (!listed_) return;
  const std::lock_guard lock(all_unfinished.mutex);
  leave();
}

void Unfinished::leave() {
  if (earlier_ != nullptr) earlier_->later_ = later_;
  (later_ != nullptr ? later_->earlier_ : all_unfinished.latest) = earlier_;
  listed_ = false;
}

void Unfinished::finish(const std::function<void()>& last) {
  const std::lock_guard lock(all_unfinished.mutex);
  last();
  leave();
}

bool undo_unfinished() {
  all_unfinished.mutex.lock();  // for good
  for (const Unfinished* one = all_unfinished.latest; one != nullptr; one = one->earlier_) {
    one->undo_();
  }
  return all_unfinished.latest != nullptr;
}

}  // namespace rlreplay
