#include "src/base/budget.h"

#include <algorithm>
#include <string>

#include "src/base/error.h"

namespace rlreplay {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kFree = 64 * kMiB;
constexpr uint64_t kTimes = 8;
constexpr uint64_t kStepsPerMiB = 256 * kMiB;  // at up to eight nanoseconds

}  // namespace

uint64_t Budget::bytes_for(uint64_t input_bytes) {
  return kFree + kTimes * std::min(input_bytes, UINT64_MAX / (2 * kTimes));
}

Budget::Budget(uint64_t input_bytes)
    : input_bytes_(input_bytes),
      left_(bytes_for(input_bytes)),
      steps_left_((1 + std::min(input_bytes / kMiB, UINT64_MAX / kStepsPerMiB - 1)) *
                  kStepsPerMiB) {}

void Budget::refuse_bytes() const {
  throw Error(ErrorCode::kLimit, "what these " + std::to_string(input_bytes_) +
                                     " bytes make would take more than " +
                                     std::to_string(bytes_for(input_bytes_) / kMiB) +
                                     " MiB of memory, 64 MiB and eight times their size");
}

void Budget::refuse_work() const {
  throw Error(ErrorCode::kLimit, "what these " + std::to_string(input_bytes_) +
                                     " bytes ask for would take longer than two seconds a MiB");
}

}  // namespace rlreplay
