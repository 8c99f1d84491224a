#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "format/foreign/torch_file.h"
#include "format/train_data.h"

namespace rlreplay::replay {

/// What Miles' policy_loss_debug files say of samples, until the training data that they belong to
/// is there: the log-probabilities of the step's own forward pass, and the policy's terms. The
/// files name neither rollout nor sample (their index counts within a micro-batch), so a sample is
/// known by its lengths and the bits of its old log-probabilities, which are the sampler's where
/// the trainer took those (--use-rollout-logprobs).
class PolicyLossRows {
 public:
  /// Rows of slices of context parallelism are counted and left out.
  /// Errors: kCorrupt, naming the row, where lengths do not agree.
  void add(const foreign::TorchFile& file);

  /// Gives each sample of a step the row that fits it, once.
  void complete(format::TrainData& step);

  /// Rows that fitted no sample so far.
  size_t left() const;

 private:
  struct Row {
    std::vector<float> current, policy_kl, policy_loss;
  };
  using Rows = std::map<std::string, std::deque<Row>>;

  /// The rows that fit a sample of a step; the end where none does.
  Rows::iterator fitting(const format::TrainData& step, size_t sample);

  Rows rows_;
  size_t slices_ = 0;
};

}  // namespace rlreplay::replay
