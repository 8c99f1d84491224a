#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/base/parameters.h"
#include "src/base/sample.h"

/// Models and batches of random numbers, the same on every machine.
namespace rlreplay::bench {

/// A small generator, the same on every machine.
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  /// Between -1 and 1.
  float number() { return static_cast<float>(static_cast<int32_t>(next() >> 32)) * 0x1p-31f; }
  int32_t below(int64_t n) { return static_cast<int32_t>(next() % static_cast<uint64_t>(n)); }

 private:
  uint64_t state_;
};

/// Norms 1, all else uniform with deviation 1 / sqrt(columns).
void fill_random(const ParameterTable& parameters, std::span<float> weights);

struct Batch {
  std::vector<Sample> samples;
  std::vector<SampleTargets> targets;
};

/// Random tokens, a quarter of each sample its prompt. The past policy knew nothing: no ratio is
/// far from 1.
[[nodiscard]] Batch random_batch(const ModelConfig& model, std::span<const int64_t> lengths);

}  // namespace rlreplay::bench
