#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "format/foreign/torch_file.h"
#include "format/train_data.h"
#include "src/replay/exchange/policy_loss_row.h"

namespace rlreplay::replay {

/// What Miles' policy_loss_debug files say of samples, until the training data that they belong to
/// is there: the log-probabilities of the step's own forward pass, and the policy's terms. The
/// files name neither rollout nor sample (their index counts within a micro-batch), so a sample is
/// known by its lengths and the bits of its old log-probabilities, which are the sampler's where
/// the trainer took those (--use-rollout-logprobs).
class PolicyLossRows {
 public:
  /// `name`: the file's in its run. Rows of slices of context parallelism are counted and left out.
  /// Errors: kCorrupt, where the file does not say its rank or call, and naming the row, where
  /// lengths do not agree.
  void add(const foreign::TorchFile& file, const std::string& name);

  /// Gives each sample of a step the row that fits it, once. How many samples with a response got
  /// none; 0 where no file was read.
  size_t complete(format::TrainData& step);

  /// By file, rows that fitted no sample so far.
  std::map<std::string, size_t> left() const;

 private:
  struct Row : PolicyLossRow {
    std::string file;
  };
  using Rows = std::map<std::string, std::deque<Row>>;

  /// The rows that fit a sample of a step; the end where none does.
  Rows::iterator fitting(const format::TrainData& step, size_t sample);

  Rows rows_;
  std::map<std::string, size_t> slices_;  // by file
  bool any_ = false;                      // whether a file was read
};

}  // namespace rlreplay::replay
