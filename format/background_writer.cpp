#include "format/background_writer.h"

#include <utility>

#include "src/base/error.h"
#include "src/base/thread_pool.h"

namespace rlreplay::format {

BackgroundWriter::BackgroundWriter(DumpWriter writer, uint64_t queued_bytes)
    : writer_(std::move(writer)), limit_(queued_bytes), thread_(start_thread([this] { work(); })) {}

BackgroundWriter::~BackgroundWriter() { stop(); }

void BackgroundWriter::append(std::string path, std::vector<Dataset> datasets) {
  Job job{std::move(path), std::move(datasets), 0};
  for (const Dataset& d : job.datasets) {
    check(d.bytes.empty() || d.owner != nullptr, "a queued dataset must own its bytes");
    check(d.base_bytes.empty() || d.base_owner != nullptr, "a queued base must own its bytes");
    job.bytes += d.bytes.size() + d.base_bytes.size();
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !draining_ && (error_ || has_room(job.bytes)); });
  rethrow();
  queued_ += job.bytes;
  job.since = std::chrono::steady_clock::now();
  jobs_.push_back(std::move(job));
  changed_.notify_all();
}

void BackgroundWriter::when_stored(std::function<void()> act) {
  {
    const std::lock_guard lock(mutex_);
    if (error_) return;
    if (!jobs_.empty()) {
      jobs_.back().acts.push_back(std::move(act));
      return;
    }
  }
  act();
}

bool BackgroundWriter::has_room(uint64_t bytes) const {
  if (jobs_.empty()) return true;  // also for a unit beyond the limit, which would wait forever
  // Age and number bound what a kill can lose, bytes bound the memory.
  const auto waited = std::chrono::steady_clock::now() - jobs_.front().since;
  if (waited > kLongestWait || jobs_.size() >= kMostWaiting) return false;
  return queued_ == 0 || queued_ + bytes <= limit_;
}

void BackgroundWriter::wait_until_stored(std::unique_lock<std::mutex>& lock) {
  changed_.wait(lock, [&] { return error_ || jobs_.empty(); });
  rethrow();
}

void BackgroundWriter::flush() {
  std::unique_lock lock(mutex_);
  wait_until_stored(lock);
}

DumpWriter BackgroundWriter::finish() {
  {
    std::unique_lock lock(mutex_);
    wait_until_stored(lock);
    changed_.wait(lock, [&] { return !draining_; });  // never, once `drain` has begun
    finished_ = true;
  }
  stop();
  return std::move(writer_);
}

std::optional<std::vector<UnitRecord>> BackgroundWriter::drain() {
  std::unique_lock lock(mutex_);
  if (finished_) return std::nullopt;
  draining_ = true;
  // An act may wait for ever, for who does not read: what lies behind it is not waited for then.
  while (!changed_.wait_for(lock, kLongestAct, [&] { return error_ || jobs_.empty(); })) {
    if (acting_) break;
  }
  rethrow();
  return writer_.units();
}

void BackgroundWriter::rethrow() {
  if (error_) std::rethrow_exception(error_);
}

void BackgroundWriter::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

/// What waits is stored together. Where one of the units is refused, one after the other, so that a
/// dump holds the beginning of its run as far as it goes; a disk that failed is not asked again.
void BackgroundWriter::store(std::span<const NewUnit> units) {
  try {
    writer_.append(units);
  } catch (const Error& e) {
    if (units.size() == 1 || e.code() == ErrorCode::kEnvironment) throw;
    for (const NewUnit& unit : units) writer_.append(unit.path, unit.datasets);
  }
}

/// Of the first jobs, which are stored and stay in place meanwhile: more may come for them.
void BackgroundWriter::do_acts(std::unique_lock<std::mutex>& lock, size_t jobs) {
  for (size_t i = 0; i < jobs; ++i) {
    while (!jobs_[i].acts.empty()) {
      const auto acts = std::exchange(jobs_[i].acts, {});
      lock.unlock();
      for (const auto& act : acts) act();
      lock.lock();
    }
  }
}

void BackgroundWriter::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || !jobs_.empty(); });
    if (jobs_.empty() || error_) return;
    // These stay in place: others only append behind them.
    std::vector<NewUnit> units;
    uint64_t bytes = 0;
    for (const Job& job : jobs_) {
      if (!units.empty() && bytes + job.bytes > kMostTogether) break;
      units.push_back({job.path, job.datasets});
      bytes += job.bytes;
    }
    lock.unlock();
    std::exception_ptr error;
    try {
      store(units);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (!error) {
      acting_ = true;
      do_acts(lock, units.size());
      acting_ = false;
    }
    queued_ -= bytes;
    jobs_.erase(jobs_.begin(), jobs_.begin() + static_cast<ptrdiff_t>(units.size()));
    if (error) {
      // A dump holds the beginning of its run: nothing goes behind a unit that failed.
      error_ = error;
      jobs_.clear();
      queued_ = 0;
    }
    changed_.notify_all();
  }
}

}  // namespace rlreplay::format
