#pragma once

#include <span>
#include <string>
#include <vector>

#include "src/base/parameters.h"
#include "src/base/sample.h"
#include "src/events/name.h"
#include "src/replay/record/recorded_run.h"
#include "src/replay/rerun/operation.h"

namespace rlreplay::replay {

/// An operation of a dump, and the memory that it looks into.
class RecordedOperation {
 public:
  /// Errors: kUsage for an event that the step has not; kUnsupported for an operation without a
  /// reference in binary64; kIncomplete where the record lacks values or the state before the step;
  /// kCorrupt where values have other shapes than the step's samples give them.
  RecordedOperation(const RecordedRun& record, const engine::StepEvent& at, ThreadPool& pool);

  RecordedOperation(const RecordedOperation&) = delete;
  RecordedOperation& operator=(const RecordedOperation&) = delete;

  const Operation& operation() const { return op_; }
  const std::vector<std::string>& inputs() const { return inputs_; }
  std::span<const float> output() const { return {output_.data, values_of_output()}; }

 private:
  [[noreturn]] void refuse(ErrorCode code, const std::string& why) const;
  void check_event() const;
  void read_samples();
  void find_inputs();
  kernels::Matrix<const float> recorded(const engine::Event& event) const;
  kernels::Matrix<const float> weight(const engine::Event& event);
  size_t values_of_output() const { return static_cast<size_t>(output_.rows * output_.cols); }

  const RecordedRun& record_;
  const engine::StepEvent at_;
  const StepId step_;
  const RecordedConfig config_;
  const ParameterTable parameters_;
  std::vector<Sample> samples_;  // by id
  engine::StepEvents events_;
  std::vector<float> weights_;
  kernels::Matrix<const float> output_;
  Operation op_;
  std::vector<std::string> inputs_;
};

}  // namespace rlreplay::replay
