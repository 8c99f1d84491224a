#pragma once

#include "src/engine/torch/array.h"

namespace rlreplay::aten {

struct LogProbResult {
  Array log_prob;
  Array entropy;
  Array dlogits;
};

/// Log-probability of each row's label and entropy under log_softmax(logits / temperature), and the
/// gradient of the sum over rows of -c log_prob - ce entropy.
/// Shapes: logits [T, V]; labels, c, ce [T].
LogProbResult log_prob(const Array& logits, const Array& labels, const Array& c, const Array& ce,
                       double temperature, Precision precision);

}  // namespace rlreplay::aten
