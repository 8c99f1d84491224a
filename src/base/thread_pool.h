#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

#include "src/base/buffer.h"

namespace rlreplay {

/// Errors: kEnvironment where the system gives no further thread.
[[nodiscard]] std::thread start_thread(std::function<void()> work);

/// Of this machine, at least 1.
[[nodiscard]] int processors();

/// Threads made once. `run` hands out the items 0..count-1 of a job one by one; the caller works
/// too and is worker 0. What an item computes may not depend on the worker that runs it, so no
/// thread count can change a bit.
class ThreadPool {
 public:
  /// threads >= 1 counts the caller.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  /// Calls task(item, worker) for every item once and returns when all are done.
  /// Errors: the first exception of a task is thrown here; the items not yet begun are dropped.
  /// Not reentrant: a task may not call `run` of its own pool.
  template <class Task>
  void run(int64_t count, Task&& task) {
    using Plain = std::remove_reference_t<Task>;
    run_erased(count, const_cast<void*>(static_cast<const void*>(&task)),
               [](void* context, int64_t item, int worker) {
                 (*static_cast<Plain*>(context))(item, worker);
               });
  }

  /// Uninitialized scratch of a worker, at least `bytes` long, valid until its next call of
  /// `scratch`. Aligned to a cache line.
  std::byte* scratch(int worker, size_t bytes);

  /// Like `scratch`, for data that all workers of the next jobs share; owned by the caller of run.
  std::byte* shared_scratch(size_t bytes);

 private:
  using Call = void (*)(void* context, int64_t item, int worker);

  void run_erased(int64_t count, void* context, Call call);
  void work(int worker);
  [[nodiscard]] bool join();
  void leave();
  void drain(int worker);

  std::vector<std::thread> workers_;
  std::vector<std::unique_ptr<Buffer<std::byte>>> scratch_;
  Buffer<std::byte> shared_scratch_;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable idle_;
  std::atomic<uint64_t> job_{uint64_t{1} << 31};  // closed
  std::atomic<int64_t> next_{0};
  std::atomic<bool> stop_{false};
  int64_t count_ = 0;
  void* context_ = nullptr;
  Call call_ = nullptr;
  std::exception_ptr error_;
};

}  // namespace rlreplay
