#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/functions.h"

/// Runs a function of the contract over all of binary32, or a stratified sample of it.
namespace rlreplay::sweep {

struct Options {
  /// Inputs: one of each of `samples` equal strata of the 2^32 bit patterns, drawn by `seed`, and
  /// a few edges; 0 takes every input. A power of two.
  uint64_t samples = 0;
  uint64_t seed = 1;
  int threads = 1;
  bool measure = true;  // the error, not only the digests
  std::function<void(double done)> progress;
};

struct SetDigest {
  std::string_view set;
  uint64_t digest = 0;
};

/// Units: max_error in ulp, the spacing of floats where the true value lies.
struct Result {
  kernels::Function function{};
  uint64_t inputs = 0;
  std::vector<SetDigest> digests;
  double max_error = 0;
  float worst = 0;             // the input
  float got = 0, want = 0;     // there; want is the true value rounded
  uint64_t not_nearest = 0;    // results that are not the float nearest to the true value
  uint64_t wrong_special = 0;  // NaN or infinity on one side only
  bool equal() const;
};

/// Order: the digest is a sum modulo 2^64 over all inputs, so threads cannot matter.
Result run(kernels::Function function, const Options& options);

}  // namespace rlreplay::sweep
