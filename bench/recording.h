#pragma once

#include <string>

namespace rlreplay::bench {

struct RecordingArguments {
  bool json = false;
  int threads = 2;
  int repetitions = 5;
  int steps = 8;  // of one measurement
  std::string folder;
};

/// Prints what recording a training step of the demo costs at each granularity, as a share of the
/// step without, and how large the dump is by token.
void measure_recording(const RecordingArguments& arguments);

}  // namespace rlreplay::bench
