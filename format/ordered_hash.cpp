#include "format/ordered_hash.h"

#include <algorithm>

#include "src/base/error.h"

namespace rlreplay::format {

OrderedHash::OrderedHash(std::span<const std::byte> bytes, size_t piece)
    : bytes_(bytes), piece_(piece), there_((bytes.size() + piece - 1) / piece) {}

void OrderedHash::add(size_t index) {
  std::unique_lock lock(mutex_);
  there_[index] = true;
  if (busy_) return;
  busy_ = true;
  while (next_ < there_.size() && there_[next_]) {
    const size_t begin = next_ * piece_;
    lock.unlock();
    hasher_.update(bytes_.subspan(begin, std::min(piece_, bytes_.size() - begin)));
    lock.lock();
    ++next_;
  }
  busy_ = false;
}

Hash OrderedHash::finish() const {
  check(next_ == there_.size(), "a hash was asked for before all pieces were there");
  return hasher_.finish();
}

}  // namespace rlreplay::format
