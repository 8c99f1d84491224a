#include "src/replay/recorded_batch.h"

#include <map>
#include <set>

#include "src/base/error.h"

namespace rlreplay::replay {
namespace {

using format::RolloutData;
using format::TokenFloats;
using format::TrainData;

/// The response's values of a row; empty where the sample has none.
std::vector<float> response(const std::optional<TokenFloats>& column, size_t row, uint64_t begin,
                            uint64_t end) {
  std::vector<float> out;
  if (!column || !column->has(row)) return out;
  for (uint64_t t = begin; t < end; ++t) out.push_back(static_cast<float>(column->at(t)));
  return out;
}

/// Where a sample's tokens lie in one table of columns.
struct Row {
  size_t row = 0;
  uint64_t begin = 0, response = 0, end = 0;
};

template <class Data>
Row row_of(const Data& data, size_t row, uint32_t prompt) {
  Row out{row, data.offsets[row], data.offsets[row] + prompt, data.offsets[row + 1]};
  if (prompt == 0 || out.response > out.end) {
    throw Error(ErrorCode::kCorrupt, "sample " + std::to_string(data.sample_id[row]) +
                                         " has no prompt, or one longer than itself");
  }
  return out;
}

class Reader {
 public:
  Reader(const RecordedRun& run, int64_t rollout)
      : run_(run), id_(rollout), rollout_(format::find_rollout_data(run.dump(), rollout)) {
    for (size_t i = 0; rollout_ && i < rollout_->size(); ++i) rows_[rollout_->sample_id[i]] = i;
  }

  std::vector<RecordedBatch> read() {
    std::vector<RecordedBatch> out;
    for (const StepId& step : run_.steps()) {
      if (step.rollout == id_) out.push_back(read_step(step));
    }
    if (out.empty() && rollout_) out.push_back(read_rollout());
    return out;
  }

 private:
  RecordedBatch read_rollout() {
    RecordedBatch out;
    out.id = {id_, 0};
    for (size_t i = 0; i < rollout_->size(); ++i) add(out, rollout_->sample_id[i], nullptr, 0);
    return out;
  }

  RecordedBatch read_step(const StepId& step) {
    RecordedBatch out;
    out.id = step;
    out.trained = true;
    std::set<uint64_t> seen;
    for (const auto* unit : run_.dump().find("train", step.group())) {
      const TrainData data =
          format::read_train_data(run_.dump(), run_.dump().open_unit(*unit), step.group());
      for (size_t i = 0; i < data.size(); ++i) {
        if (seen.insert(data.sample_id[i]).second) add(out, data.sample_id[i], &data, i);
      }
      if (data.scalars && !out.scalars) out.scalars = data.scalars;
    }
    return out;
  }

  /// One sample: what the step says of it, else what the rollout says.
  void add(RecordedBatch& out, uint64_t id, const TrainData* train, size_t row) const {
    engine::Sample s;
    s.id = id;
    std::optional<Row> generated, trained;
    if (const auto at = rows_.find(id); at != rows_.end() && rollout_->prompt_length) {
      generated = row_of(*rollout_, at->second, (*rollout_->prompt_length)[at->second]);
    }
    if (train != nullptr) trained = trained_row(*train, row, generated);
    if (!generated && !trained) incomplete(id, "prompt length");
    take_tokens(s, generated, train, trained);
    const auto tokens = [&](const std::optional<TokenFloats> TrainData::*column) {
      if (!trained) return std::vector<float>();
      return response(train->*column, row, trained->response, trained->end);
    };
    engine::SampleTargets& targets = out.targets.emplace_back();
    targets.advantages = tokens(&TrainData::advantages);
    targets.old_log_probs = tokens(&TrainData::old_log_probs);
    targets.ref_log_probs = tokens(&TrainData::ref_log_probs);
    out.log_probs.push_back(tokens(&TrainData::log_probs));
    if (generated) {
      s.rollout_log_probs =
          response(rollout_->log_probs, generated->row, generated->response, generated->end);
    }
    if (s.rollout_log_probs.empty()) s.rollout_log_probs = tokens(&TrainData::rollout_log_probs);
    out.has_mask.push_back(take_mask(s, generated, train, trained));
    out.has_group.push_back(generated && rollout_->group_id &&
                            rollout_->group_id->has(generated->row));
    if (out.has_group.back()) s.group = rollout_->group_id->values[generated->row];
    out.has_reward.push_back(generated && rollout_->rewards &&
                             rollout_->rewards->has(generated->row));
    if (out.has_reward.back()) s.reward = rollout_->rewards->values[generated->row];
    out.versions.push_back(generated ? versions(generated->row) : std::vector<int64_t>());
    out.samples.push_back(std::move(s));
  }

  std::optional<Row> trained_row(const TrainData& data, size_t row,
                                 const std::optional<Row>& generated) const {
    if (data.prompt_length) return row_of(data, row, (*data.prompt_length)[row]);
    if (!generated) return std::nullopt;
    const Row out =
        row_of(data, row, static_cast<uint32_t>(generated->response - generated->begin));
    if (out.end - out.begin == generated->end - generated->begin) return out;
    throw Error(ErrorCode::kCorrupt,
                "sample " + std::to_string(data.sample_id[row]) +
                    " has another length in step and rollout " + std::to_string(id_),
                run_.path());
  }

  void take_tokens(engine::Sample& s, const std::optional<Row>& generated, const TrainData* train,
                   const std::optional<Row>& trained) const {
    const bool own = trained && train->tokens;
    if (!own && !generated) incomplete(s.id, "tokens");
    const Row& at = own ? *trained : *generated;
    const std::vector<int32_t>& from = own ? *train->tokens : rollout_->tokens;
    s.tokens.assign(from.begin() + static_cast<ptrdiff_t>(at.begin),
                    from.begin() + static_cast<ptrdiff_t>(at.end));
    s.prompt_length = static_cast<int64_t>(at.response - at.begin);
  }

  /// Returns whether one was recorded.
  bool take_mask(engine::Sample& s, const std::optional<Row>& generated, const TrainData* train,
                 const std::optional<Row>& trained) const {
    const auto take = [&](const std::optional<format::Column<uint8_t>>& mask, const Row& at) {
      if (!mask || !mask->has(at.row)) return false;
      s.loss_mask.assign(mask->values.begin() + static_cast<ptrdiff_t>(at.response),
                         mask->values.begin() + static_cast<ptrdiff_t>(at.end));
      return true;
    };
    if (trained && take(train->loss_mask, *trained)) return true;
    if (generated && take(rollout_->loss_mask, *generated)) return true;
    s.loss_mask.assign(static_cast<size_t>(s.response_length()), 1);
    return false;
  }

  std::vector<int64_t> versions(size_t row) const {
    if (!rollout_->versions) return {};
    const format::Versions& v = *rollout_->versions;
    return {v.versions.begin() + static_cast<ptrdiff_t>(v.offsets[row]),
            v.versions.begin() + static_cast<ptrdiff_t>(v.offsets[row + 1])};
  }

  [[noreturn]] void incomplete(uint64_t id, const std::string& what) const {
    throw Error(ErrorCode::kIncomplete,
                "neither the step nor rollout " + std::to_string(id_) + " holds the " + what +
                    " of sample " + std::to_string(id) +
                    ": import the rollout dump together with the train dump",
                run_.path());
  }

  const RecordedRun& run_;
  const int64_t id_;
  const std::optional<RolloutData> rollout_;
  std::map<uint64_t, size_t> rows_;
};

}  // namespace

std::optional<double> RecordedBatch::scalar(std::string_view name) const {
  return scalars ? scalars->find(name) : std::nullopt;
}

std::vector<RecordedBatch> recorded_batches(const RecordedRun& run, int64_t rollout) {
  return Reader(run, rollout).read();
}

std::vector<int64_t> recorded_rollouts(const RecordedRun& run) {
  std::set<int64_t> out(run.rollouts().begin(), run.rollouts().end());
  for (const StepId& step : run.steps()) out.insert(step.rollout);
  return {out.begin(), out.end()};
}

}  // namespace rlreplay::replay
