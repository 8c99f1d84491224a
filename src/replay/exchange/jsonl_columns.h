#pragma once

#include <memory>
#include <vector>

#include "format/rollout_data.h"
#include "format/train_data.h"
#include "src/base/budget.h"
#include "src/replay/exchange/jsonl_row.h"

/// The lines of one rollout, or of one step of a rank, as columns.
namespace rlreplay::replay::jsonl {

/// The samples by ascending id. Of `budget` what is filled in: zeros of prompts, and of samples
/// that lack a column which others have. Errors: kCorrupt, naming the line and the key; kLimit.
[[nodiscard]] std::shared_ptr<format::RolloutData> make_rollout(std::vector<Row>& rows,
                                                                Budget& budget);

/// The samples in the order of the lines. Errors: as make_rollout.
[[nodiscard]] std::shared_ptr<format::TrainData> make_train(const std::vector<Row>& rows,
                                                            Budget& budget);

}  // namespace rlreplay::replay::jsonl
