#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "format/dump_writer.h"

namespace rlreplay::format {

/// Appends units from a thread of its own, in the order in which they came, so that recording does
/// not hold up the run that is recorded. It does once a unit has waited for a second, or a few
/// units wait: what the run has shown is never far from being stored.
class BackgroundWriter {
 public:
  static constexpr std::chrono::seconds kLongestWait{1};
  static constexpr size_t kMostWaiting = 16;
  /// After so long `drain` does not wait for an act any more.
  static constexpr std::chrono::seconds kLongestAct{2};
  /// Bytes of units that are stored together, if more than one waits.
  static constexpr uint64_t kMostTogether = uint64_t{64} << 20;

  /// `queued_bytes`: how much may wait at once; a single larger unit waits alone.
  /// Errors: kEnvironment where no thread can be started.
  BackgroundWriter(DumpWriter writer, uint64_t queued_bytes);
  /// Waits for what is queued; an error of it is lost, so call `finish` before.
  ~BackgroundWriter();
  BackgroundWriter(const BackgroundWriter&) = delete;
  BackgroundWriter& operator=(const BackgroundWriter&) = delete;

  /// Hands a unit over; its datasets own their bytes. Waits while the queue is full or slow.
  /// Errors (also of `flush` and `finish`): the first one of the thread; nothing was or will be
  /// appended after it.
  void append(std::string path, std::vector<Dataset> datasets);

  /// Calls `act` once everything handed over so far is acknowledged: in the writer's thread, or at
  /// once, in the caller's, where it is already; never where an error comes first. Acts come in
  /// their order, before `flush`, `finish` and `drain` return; none may throw or call this object.
  void when_stored(std::function<void()> act);

  /// Returns when everything handed over is acknowledged.
  void flush();

  /// Flushes, ends the thread and gives the writer back, to be sealed.
  [[nodiscard]] DumpWriter finish();

  /// For another thread that ends the program next: takes nothing more, waits until everything
  /// handed over is acknowledged, but not for an act that does not end, and says what is. The other
  /// calls do not return any more. Nothing where `finish` has come first. Errors: as of `append`.
  [[nodiscard]] std::optional<std::vector<UnitRecord>> drain();

 private:
  struct Job {
    std::string path;
    std::vector<Dataset> datasets;
    uint64_t bytes = 0;
    std::chrono::steady_clock::time_point since = {};
    std::vector<std::function<void()>> acts = {};  // once it is acknowledged
  };

  void work();
  void store(std::span<const NewUnit> units);
  void do_acts(std::unique_lock<std::mutex>& lock, size_t jobs);
  void stop();
  void rethrow();
  [[nodiscard]] bool has_room(uint64_t bytes) const;
  void wait_until_stored(std::unique_lock<std::mutex>& lock);

  DumpWriter writer_;  // the thread's until it has ended
  const uint64_t limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;  // the first one is being written
  uint64_t queued_ = 0;
  bool acting_ = false;  // the first ones are stored, and their acts go on
  bool stopping_ = false, draining_ = false, finished_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace rlreplay::format
