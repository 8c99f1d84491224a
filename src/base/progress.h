#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace rlreplay {

/// A bar on standard error for long work; nothing where that is no terminal.
class Progress {
 public:
  /// `unit`: what is counted, in the plural.
  Progress(std::string what, std::string unit, int64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Draws again at most ten times a second.
  void at(int64_t done);

 private:
  void draw(int64_t done);

  std::string what_, unit_;
  int64_t total_;
  bool terminal_;
  std::chrono::steady_clock::time_point start_, drawn_;
};

}  // namespace rlreplay
