#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "format/foreign/torch_file.h"

namespace rlreplay::replay {

/// What a file of Miles' policy_loss_debug says of one sample of a micro-batch.
struct PolicyLossRow {
  size_t total = 0;     // length of the sample
  size_t response = 0;  // of its response; `old` is shorter where it is a slice
  std::vector<float> old, current, policy_kl, policy_loss;

  bool is_slice() const { return old.size() != response; }
};

/// The rows of a file, in its order. Errors: kCorrupt where the file does not say its rank or call,
/// and, naming the row, where a value of each token has another length than the others; also where
/// the terms of all rows are more or fewer than their tokens.
std::vector<PolicyLossRow> read_policy_loss(const foreign::TorchFile& file);

}  // namespace rlreplay::replay
