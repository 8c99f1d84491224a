#pragma once

#include "format/foreign/dump_check.h"

namespace rlreplay::foreign {

/// Reports what a dump of training data says against itself, whichever way round it holds the
/// samples: columns of all samples, or a dict a sample.
void check_training_rows(const Tree& tree, Value root, const ProblemSink& sink);

}  // namespace rlreplay::foreign
