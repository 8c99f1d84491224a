#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "format/dump_writer.h"

namespace rlreplay::format {

/// Appends units from a thread of its own, in the order in which they came, so that recording does
/// not hold up the run that is recorded.
class BackgroundWriter {
 public:
  /// `queued_bytes`: how much may wait at once; a single larger unit waits alone.
  BackgroundWriter(DumpWriter writer, uint64_t queued_bytes);
  /// Waits for what is queued; an error of it is lost, so call `finish` before.
  ~BackgroundWriter();
  BackgroundWriter(const BackgroundWriter&) = delete;
  BackgroundWriter& operator=(const BackgroundWriter&) = delete;

  /// Hands a unit over; its datasets own their bytes. Waits while the queue is full.
  /// Errors (also of `flush` and `finish`): the first one of the thread; nothing was or will be
  /// appended after it.
  void append(std::string path, std::vector<Dataset> datasets);

  /// Returns when everything handed over is acknowledged.
  void flush();

  /// Flushes, ends the thread and gives the writer back, to be sealed.
  DumpWriter finish();

 private:
  struct Job {
    std::string path;
    std::vector<Dataset> datasets;
    uint64_t bytes = 0;
  };

  void work();
  void stop();
  void rethrow();

  DumpWriter writer_;  // the thread's until it has ended
  const uint64_t limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;  // the first one is being written
  uint64_t queued_ = 0;
  bool stopping_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace rlreplay::format
