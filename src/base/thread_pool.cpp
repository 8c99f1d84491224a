#include "src/base/thread_pool.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "src/base/error.h"

namespace rlreplay {

std::thread start_thread(std::function<void()> work) {
  try {
    return std::thread(std::move(work));
  } catch (const std::system_error& e) {
    throw Error(ErrorCode::kEnvironment,
                "the system starts no further thread (" + e.code().message() +
                    "): use fewer (--threads), or raise the limit of processes or memory");
  }
}

int processors() { return static_cast<int>(std::max(1U, std::thread::hardware_concurrency())); }

namespace {

// A job of a decode step lasts tens of microseconds, about as long as waking a thread does:
// workers look for the next job for this many turns before they sleep.
constexpr int kSpins = 4000;

// A job: its number, whether it is closed to workers that come late, and how many are in it.
constexpr int kNumberShift = 32;
constexpr uint64_t kClosed = uint64_t{1} << 31;
constexpr uint64_t kJoined = kClosed - 1;

constexpr int kMaxThreads = 1024;

uint64_t number(uint64_t job) { return job >> kNumberShift; }

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

template <class Ready>
bool spin_until(Ready ready) {
  for (int i = 0; i < kSpins; ++i) {
    if (ready()) return true;
    pause_cpu();
  }
  return false;
}

void end_workers(std::mutex& mutex, std::condition_variable& wake, std::atomic<bool>& stop,
                 std::atomic<uint64_t>& job, std::vector<std::thread>& workers) {
  {
    std::lock_guard lock(mutex);
    stop = true;
    job = (number(job) + 1) << kNumberShift | kClosed;
  }
  wake.notify_all();
  for (auto& worker : workers) worker.join();
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  if (threads < 1 || threads > kMaxThreads) {
    throw Error(ErrorCode::kUsage, "there are 1 to " + std::to_string(kMaxThreads) +
                                       " threads (--threads), not " + std::to_string(threads));
  }
  for (int i = 0; i < threads; ++i) scratch_.push_back(std::make_unique<Buffer<std::byte>>());
  try {
    for (int i = 1; i < threads; ++i) workers_.push_back(start_thread([this, i] { work(i); }));
  } catch (...) {
    end_workers(mutex_, wake_, stop_, job_, workers_);
    throw;
  }
}

ThreadPool::~ThreadPool() { end_workers(mutex_, wake_, stop_, job_, workers_); }

std::byte* ThreadPool::scratch(int worker, size_t bytes) {
  auto& buffer = *scratch_[static_cast<size_t>(worker)];
  buffer.resize(bytes);
  return buffer.data();
}

std::byte* ThreadPool::shared_scratch(size_t bytes) {
  shared_scratch_.resize(bytes);
  return shared_scratch_.data();
}

void ThreadPool::run_erased(int64_t count, void* context, Call call) {
  if (count <= 0) return;
  if (workers_.empty() || count == 1) {
    for (int64_t i = 0; i < count; ++i) call(context, i, 0);
    return;
  }
  {
    std::lock_guard lock(mutex_);
    count_ = count;
    context_ = context;
    call_ = call;
    error_ = nullptr;
    next_ = 0;
    job_ = (number(job_) + 1) << kNumberShift;
  }
  wake_.notify_all();
  drain(0);
  // No item is left: only who works on one is waited for, not who has yet to wake up.
  job_.fetch_or(kClosed);
  const auto is_left = [&] { return (job_.load() & kJoined) == 0; };
  if (!spin_until(is_left)) {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, is_left);
  }
  std::exception_ptr error;
  {
    std::lock_guard lock(mutex_);
    error = std::exchange(error_, nullptr);
  }
  if (error) std::rethrow_exception(error);
}

bool ThreadPool::join() {
  uint64_t job = job_.load();
  while ((job & kClosed) == 0) {
    if (job_.compare_exchange_weak(job, job + 1)) return true;
  }
  return false;
}

void ThreadPool::leave() {
  const uint64_t job = job_.fetch_sub(1);
  if ((job & kClosed) == 0 || (job & kJoined) != 1) return;
  std::lock_guard lock(mutex_);
  idle_.notify_one();
}

void ThreadPool::work(int worker) {
  uint64_t seen = 0;
  for (;;) {
    const auto is_new = [&] { return number(job_.load()) != seen; };
    if (!spin_until(is_new)) {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, is_new);
    }
    seen = number(job_.load());
    if (stop_) return;
    if (!join()) continue;
    drain(worker);
    leave();
  }
}

void ThreadPool::drain(int worker) {
  try {
    for (int64_t item; (item = next_.fetch_add(1)) < count_;) call_(context_, item, worker);
  } catch (...) {
    next_ = count_;
    std::lock_guard lock(mutex_);
    if (!error_) error_ = std::current_exception();
  }
}

}  // namespace rlreplay
