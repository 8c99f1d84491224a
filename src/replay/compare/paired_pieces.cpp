#include "src/replay/compare/paired_pieces.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>

#include "src/base/buffer.h"
#include "src/base/error.h"
#include "src/base/thread_pool.h"

namespace rlreplay::replay {
namespace {

using Bytes = std::span<const std::byte>;

/// What one thread decodes for another, which takes it in pieces of its own sizes.
class Handoff {
 public:
  /// Waits until the piece was taken. Errors: kInternal once nobody takes any more.
  void give(Bytes piece) {
    std::unique_lock lock(mutex_);
    left_ = piece;
    changed_.notify_all();
    changed_.wait(lock, [&] { return left_.empty() || closed_; });
    check(left_.empty(), "the other dataset is not read any more");
  }

  /// The giver's end; `fault`: why it came too early, if it did.
  void end(std::exception_ptr fault) {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    fault_ = std::move(fault);
    changed_.notify_all();
  }

  /// Fills `out` with what comes next. Errors: the giver's.
  void take(std::span<std::byte> out) {
    std::unique_lock lock(mutex_);
    while (!out.empty()) {
      changed_.wait(lock, [&] { return !left_.empty() || ended_; });
      if (left_.empty() && fault_) std::rethrow_exception(fault_);
      check(!left_.empty(), "two datasets have other numbers of elements");
      const size_t count = std::min(left_.size(), out.size());
      std::memcpy(out.data(), left_.data(), count);
      out = out.subspan(count);
      left_ = left_.subspan(count);
      if (left_.empty()) changed_.notify_all();
    }
  }

  /// The taker's end.
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

  /// Once the giver is gone. Errors: the giver's.
  void check_ended() const {
    if (fault_) std::rethrow_exception(fault_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Bytes left_;
  bool ended_ = false, closed_ = false;
  std::exception_ptr fault_;
};

/// The thread that decodes the other dataset; it ends with the object.
class Giver {
 public:
  Giver(Handoff& handoff, const PlainDataset& from) : handoff_(handoff) {
    thread_ = start_thread([&handoff, from] {
      std::exception_ptr fault;
      try {
        from.unit->stream(*from.dataset, [&](Bytes piece) {
          if (!piece.empty()) handoff.give(piece);
        });
      } catch (...) {
        fault = std::current_exception();
      }
      handoff.end(std::move(fault));
    });
  }
  ~Giver() { join(); }
  Giver(const Giver&) = delete;
  Giver& operator=(const Giver&) = delete;

  void join() {
    handoff_.close();
    if (thread_.joinable()) thread_.join();
  }

 private:
  Handoff& handoff_;
  std::thread thread_;
};

}  // namespace

void read_side_by_side(const PlainDataset& a, const PlainDataset& b,
                       const std::function<void(Bytes a, Bytes b)>& use) {
  const size_t size_a = size_of(a.dataset->dtype), size_b = size_of(b.dataset->dtype);
  check(a.dataset->bytes / size_a == b.dataset->bytes / size_b,
        "two datasets have other numbers of elements");
  Handoff handoff;
  Giver giver(handoff, b);
  // Copies: what lies in a file mapped into memory may begin at any byte.
  Buffer<std::byte> from_a, from_b;
  a.unit->stream(*a.dataset, [&](Bytes piece) {
    if (piece.empty()) return;
    from_a.resize(std::max(from_a.size(), piece.size()));
    const size_t bytes_b = piece.size() / size_a * size_b;
    from_b.resize(std::max(from_b.size(), bytes_b));
    std::memcpy(from_a.data(), piece.data(), piece.size());
    handoff.take({from_b.data(), bytes_b});
    use({from_a.data(), piece.size()}, {from_b.data(), bytes_b});
  });
  giver.join();
  handoff.check_ended();
}

}  // namespace rlreplay::replay
