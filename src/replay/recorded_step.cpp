#include "src/replay/recorded_step.h"

#include <algorithm>
#include <set>

#include "src/base/error.h"
#include "src/base/same_value.h"

namespace rlreplay::replay {
namespace {

using format::RolloutData;
using format::TokenFloats;
using format::TrainData;

constexpr auto kColumns = std::to_array<StepColumn>({
    {"log_probs", &TrainData::log_probs, &RecordedStep::log_probs},
    {"old_log_probs", &TrainData::old_log_probs, &RecordedStep::old_log_probs},
    {"ref_log_probs", &TrainData::ref_log_probs, &RecordedStep::ref_log_probs},
    {"teacher_log_probs", &TrainData::teacher_log_probs, &RecordedStep::teacher_log_probs},
    {"rollout_log_probs", &TrainData::rollout_log_probs, &RecordedStep::rollout_log_probs},
    {"entropy", &TrainData::entropy, &RecordedStep::entropy},
    {"ref_entropy", &TrainData::ref_entropy, &RecordedStep::ref_entropy},
    {"advantages", &TrainData::advantages, &RecordedStep::advantages},
    {"returns", &TrainData::returns, &RecordedStep::returns},
    {"values", &TrainData::values, &RecordedStep::values},
    {"current_values", &TrainData::current_values, &RecordedStep::current_values},
    {"kl", &TrainData::kl, &RecordedStep::kl},
    {"reverse_kl", &TrainData::reverse_kl, &RecordedStep::reverse_kl},
    {"policy_kl", &TrainData::policy_kl, &RecordedStep::policy_kl},
    {"policy_loss", &TrainData::policy_loss, &RecordedStep::policy_loss},
});
static_assert(std::ranges::equal(kColumns, format::kTokenColumnFields, {}, &StepColumn::name,
                                 &format::TokenColumnField::name),
              "a column of the format that no verb reads");

/// Where a sample's tokens lie in a table of columns.
struct Row {
  size_t row = 0;
  uint64_t begin = 0, response = 0, end = 0;
};

template <class T>
std::vector<T> tokens_of(const std::vector<T>& values, uint64_t begin, uint64_t end) {
  return {values.begin() + static_cast<ptrdiff_t>(begin),
          values.begin() + static_cast<ptrdiff_t>(end)};
}

/// The response's values of a row; empty where the sample has none.
std::vector<float> response_of(const std::optional<TokenFloats>& column, const Row& at) {
  std::vector<float> out;
  if (!column || !column->has(at.row)) return out;
  for (uint64_t t = at.response; t < at.end; ++t) out.push_back(static_cast<float>(column->at(t)));
  return out;
}

std::optional<std::vector<uint8_t>> mask_of(const std::optional<format::Column<uint8_t>>& column,
                                            const Row& at) {
  if (!column || !column->has(at.row)) return std::nullopt;
  return tokens_of(column->values, at.response, at.end);
}

template <class T>
void take(const std::optional<format::Column<T>>& column, size_t row, T& to, bool& recorded) {
  recorded = column && column->has(row);
  if (recorded) to = column->values[row];
}

/// What top-p kept of a sample's response; nothing where the sample does not say.
std::optional<engine::Nuclei> nuclei_of(const RolloutData& data, const Row& at) {
  if (!data.nucleus || !data.nucleus->has(at.row)) return std::nullopt;
  const format::TokenSets& sets = *data.nucleus;
  uint64_t first = sets.offsets[at.row];
  for (uint64_t t = at.begin; t < at.response; ++t) first += sets.sizes[t];
  engine::Nuclei out;
  out.offsets.push_back(0);
  for (uint64_t t = at.response; t < at.end; ++t) {
    out.offsets.push_back(out.offsets.back() + sets.sizes[t]);
  }
  out.ids = tokens_of(sets.ids, first, first + out.offsets.back());
  return out;
}

void take(const std::optional<format::Column<uint64_t>>& column, size_t row,
          std::optional<uint64_t>& to) {
  if (column && column->has(row)) to = column->values[row];
}

/// A sample of a step as one rank recorded it, completed by the rollout.
struct Member {
  engine::Sample sample;
  RecordedFields fields;
  bool own_mask = false;  // recorded by the rank
  std::array<std::vector<float>, kColumns.size()> columns;
  std::optional<double> shaped;
  std::string unit;  // the path of the rank's
};

class RolloutReader {
 public:
  RolloutReader(const RecordedRun& run, int64_t rollout) : run_(run) {
    out_.id = rollout;
    out_.data = format::find_rollout_data(run.dump(), rollout);
    for (size_t i = 0; out_.data && i < out_.data->size(); ++i) {
      out_.rows.emplace(out_.data->sample_id[i], i);
    }
  }

  RecordedRollout read() && {
    add_samples();
    for (const StepId& step : run_.steps()) {
      if (step.rollout == out_.id) out_.steps.push_back(read_step(step));
    }
    if (out_.steps.empty() && out_.data) out_.steps.push_back(untrained());
    return std::move(out_);
  }

  RecordedRollout read_samples() && {
    add_samples();
    return std::move(out_);
  }

 private:
  void add_samples() {
    for (size_t i = 0; out_.data && i < out_.data->size(); ++i) {
      const uint64_t id = out_.data->sample_id[i];
      RecordedFields& fields = out_.fields.emplace_back();
      engine::Sample& s = out_.samples.emplace_back();
      s.id = id;
      take_sample_fields(i, s, fields);
      if (!out_.data->prompt_length) continue;
      const Row at = generated_row(i, (*out_.data->prompt_length)[i]);
      s.prompt_length = static_cast<int64_t>(at.response - at.begin);
      s.tokens = tokens_of(out_.data->tokens, at.begin, at.end);
      const auto mask = mask_of(out_.data->loss_mask, at);
      fields.mask = mask.has_value();
      s.loss_mask = mask.value_or(std::vector<uint8_t>(at.end - at.response, 1));
      s.rollout_log_probs = response_of(out_.data->log_probs, at);
      s.nuclei = nuclei_of(*out_.data, at);
    }
  }

  RecordedStep untrained() const {
    RecordedStep out;
    out.id = {out_.id, 0};
    for (const engine::Sample& s : out_.samples) {
      if (s.tokens.empty()) lacks(s.id, "prompt length");
    }
    out.samples = out_.samples;
    out.fields = out_.fields;
    join_rollout_log_probs(out);
    return out;
  }

  RecordedStep read_step(const StepId& step) {
    RecordedStep out;
    out.id = step;
    out.trained = true;
    std::vector<Member> members;
    std::map<uint64_t, size_t> places;
    for (const auto* unit : run_.dump().find("train", step.group())) {
      const format::UnitReader reader = run_.dump().open_unit(*unit);
      if (reader.find(step.group() + "/sample_id") == nullptr) continue;  // events alone
      const TrainData data = format::read_train_data(run_.dump(), reader, step.group());
      for (size_t row = 0; row < data.size(); ++row) {
        Member member = member_of(data, row, unit->path);
        const auto [at, fresh] = places.emplace(data.sample_id[row], members.size());
        if (fresh) {
          members.push_back(std::move(member));
        } else {
          merge(step, members[at->second], std::move(member));
        }
      }
      if (data.scalars && !out.scalars) out.scalars = data.scalars;
    }
    fill(out, members);
    join_rollout_log_probs(out);
    return out;
  }

  /// What the step says of one sample, else what the rollout says.
  Member member_of(const TrainData& data, size_t row, const std::string& unit) const {
    const uint64_t id = data.sample_id[row];
    const auto known = out_.rows.find(id);
    const std::optional<size_t> generated =
        known == out_.rows.end() ? std::nullopt : std::optional(known->second);
    const uint32_t prompt = prompt_length(data, row, generated);
    const Row at = row_of(id, row, data.offsets, prompt);
    Member out;
    out.unit = unit;
    out.sample.id = id;
    out.sample.prompt_length = prompt;
    std::optional<Row> from;
    if (generated) {
      from = generated_row(*generated, prompt);
      if (from->end - from->begin != at.end - at.begin) contradicts(id, "length");
      take_sample_fields(*generated, out.sample, out.fields);
    }
    out.sample.tokens = tokens(data, at, from);
    auto mask = mask_of(data.loss_mask, at);
    out.own_mask = mask.has_value();
    if (!mask && from) mask = mask_of(out_.data->loss_mask, *from);
    out.fields.mask = mask.has_value();
    out.sample.loss_mask = mask.value_or(std::vector<uint8_t>(at.end - at.response, 1));
    for (size_t c = 0; c < kColumns.size(); ++c) {
      out.columns[c] = response_of(data.*kColumns[c].stored, at);
    }
    if (from) {
      out.sample.rollout_log_probs = response_of(out_.data->log_probs, *from);
      out.sample.nuclei = nuclei_of(*out_.data, *from);
    }
    take(data.trajectory_id, row, out.sample.trajectory);
    if (data.trajectory_tokens && data.trajectory_tokens->has(row)) {
      out.sample.trajectory_tokens = static_cast<int64_t>(data.trajectory_tokens->values[row]);
    }
    if (data.rewards && data.rewards->has(row)) out.shaped = data.rewards->values[row];
    return out;
  }

  uint32_t prompt_length(const TrainData& data, size_t row, std::optional<size_t> generated) const {
    const uint64_t id = data.sample_id[row];
    const auto* trained = data.prompt_length ? &(*data.prompt_length)[row] : nullptr;
    const auto* of_rollout =
        generated && out_.data->prompt_length ? &(*out_.data->prompt_length)[*generated] : nullptr;
    if (trained == nullptr && of_rollout == nullptr) lacks(id, "prompt length");
    if (trained != nullptr && of_rollout != nullptr && *trained != *of_rollout) {
      contradicts(id, "prompt");
    }
    return trained != nullptr ? *trained : *of_rollout;
  }

  std::vector<int32_t> tokens(const TrainData& data, const Row& at,
                              const std::optional<Row>& from) const {
    const uint64_t id = data.sample_id[at.row];
    if (!data.tokens && !from) lacks(id, "tokens");
    if (!data.tokens) return tokens_of(out_.data->tokens, from->begin, from->end);
    auto out = tokens_of(*data.tokens, at.begin, at.end);
    if (from && out != tokens_of(out_.data->tokens, from->begin, from->end)) {
      contradicts(id, "tokens");
    }
    return out;
  }

  Row row_of(uint64_t id, size_t row, const std::vector<uint64_t>& offsets, uint32_t prompt) const {
    const Row out{row, offsets[row], offsets[row] + prompt, offsets[row + 1]};
    if (prompt > 0 && out.response <= out.end) return out;
    throw Error(ErrorCode::kCorrupt,
                "sample " + std::to_string(id) + " of rollout " + std::to_string(out_.id) +
                    " has no prompt, or one longer than itself",
                run_.path());
  }

  Row generated_row(size_t row, uint32_t prompt) const {
    return row_of(out_.data->sample_id[row], row, out_.data->offsets, prompt);
  }

  void take_sample_fields(size_t row, engine::Sample& s, RecordedFields& fields) const {
    take(out_.data->group_id, row, s.group, fields.group);
    take(out_.data->rewards, row, s.reward, fields.reward);
    take(out_.data->trajectory_id, row, s.trajectory);
  }

  /// A sample that a rank before this one has too: what that one lacks is taken, the rest must be
  /// the same.
  void merge(const StepId& step, Member& to, Member from) const {
    const auto differ = [&](const std::string& what) {
      throw Error(ErrorCode::kCorrupt,
                  "sample " + std::to_string(to.sample.id) + " of step " + step.name() +
                      (to.unit == from.unit ? " stands twice in " + to.unit + ", with other "
                                            : " has other ") +
                      what +
                      (to.unit == from.unit ? "" : " in " + from.unit + " than in " + to.unit) +
                      ": which of them was trained on cannot be known",
                  run_.path());
    };
    if (to.sample.prompt_length != from.sample.prompt_length ||
        to.sample.tokens != from.sample.tokens) {
      differ("tokens");
    }
    if (to.own_mask && from.own_mask && to.sample.loss_mask != from.sample.loss_mask) {
      differ("loss_mask");
    }
    if (!to.own_mask && from.own_mask) {
      to.sample.loss_mask = std::move(from.sample.loss_mask);
      to.fields.mask = to.own_mask = true;
    }
    for (size_t c = 0; c < kColumns.size(); ++c) {
      if (to.columns[c].empty()) {
        to.columns[c] = std::move(from.columns[c]);
      } else if (!from.columns[c].empty() &&
                 !std::ranges::equal(to.columns[c], from.columns[c],
                                     [](float x, float y) { return same_value(x, y); })) {
        differ(std::string(kColumns[c].name));
      }
    }
    if (to.sample.trajectory != from.sample.trajectory ||
        to.sample.trajectory_tokens != from.sample.trajectory_tokens) {
      differ("trajectory_id or trajectory_tokens");
    }
    if (to.shaped && from.shaped && *to.shaped != *from.shaped) differ("rewards");
    if (!to.shaped) to.shaped = from.shaped;
  }

  static void fill(RecordedStep& out, std::vector<Member>& members) {
    for (size_t c = 0; c < kColumns.size(); ++c) {
      const bool any =
          std::ranges::any_of(members, [&](const Member& m) { return !m.columns[c].empty(); });
      if (!any) continue;
      TokenColumn& column = out.*kColumns[c].column;
      column.emplace();
      for (Member& m : members) column->push_back(std::move(m.columns[c]));
    }
    const auto shaped = [](const Member& m) { return m.shaped.has_value(); };
    if (!members.empty() && std::ranges::all_of(members, shaped)) {
      out.shaped.emplace();
      for (const Member& m : members) out.shaped->push_back(*m.shaped);
    }
    for (Member& m : members) {
      out.samples.push_back(std::move(m.sample));
      out.fields.push_back(m.fields);
    }
  }

  /// The sampler's log-probabilities: the trainer's copy where it has one, else the rollout's.
  static void join_rollout_log_probs(RecordedStep& step) {
    bool any = false;
    std::vector<std::vector<float>> joined;
    for (size_t i = 0; i < step.samples.size(); ++i) {
      engine::Sample& s = step.samples[i];
      const bool own = step.rollout_log_probs && !(*step.rollout_log_probs)[i].empty();
      if (own) s.rollout_log_probs = (*step.rollout_log_probs)[i];
      any = any || !s.rollout_log_probs.empty();
      joined.push_back(s.rollout_log_probs);
    }
    step.rollout_log_probs.reset();
    if (any) step.rollout_log_probs = std::move(joined);
  }

  [[noreturn]] void lacks(uint64_t id, const std::string& what) const {
    throw Error(ErrorCode::kIncomplete,
                "neither the step nor rollout " + std::to_string(out_.id) + " holds the " + what +
                    " of sample " + std::to_string(id) +
                    ": import the rollout dump together with the train dump",
                run_.path());
  }

  [[noreturn]] void contradicts(uint64_t id, const std::string& what) const {
    throw Error(ErrorCode::kCorrupt,
                "sample " + std::to_string(id) + " has another " + what +
                    " in the step than in rollout " + std::to_string(out_.id),
                run_.path());
  }

  const RecordedRun& run_;
  RecordedRollout out_;
};

bool all_have(std::span<const RecordedFields> fields, bool RecordedFields::*field) {
  return std::ranges::all_of(fields, field);
}

}  // namespace

std::span<const StepColumn> step_columns() { return kColumns; }

bool is_whole(const TokenColumn& column, std::span<const engine::Sample> samples) {
  if (!column) return false;
  for (size_t i = 0; i < samples.size(); ++i) {
    if ((*column)[i].size() != samples[i].loss_mask.size()) return false;
  }
  return true;
}

std::optional<double> RecordedStep::scalar(std::string_view name) const {
  return scalars ? scalars->find(name) : std::nullopt;
}

std::optional<int64_t> RecordedStep::trajectories() const {
  const std::optional<double> counted = scalar("trajectories");
  if (!counted || !(*counted >= 1 && *counted < 0x1p53)) return std::nullopt;
  return static_cast<int64_t>(*counted);
}

RecordedScalars recorded_scalars(const RecordedStep& step) {
  return {step.scalar("loss"), step.scalar("grad_norm"), step.scalar("lr")};
}

bool RecordedRollout::has_rewards() const {
  return data && data->rewards && all_have(fields, &RecordedFields::reward);
}

bool RecordedRollout::has_groups() const {
  return data && data->group_id && all_have(fields, &RecordedFields::group);
}

std::vector<int64_t> trained_rollouts(const RecordedRun& run) {
  std::vector<int64_t> out;
  for (const StepId& step : run.steps()) {
    if (out.empty() || out.back() != step.rollout) out.push_back(step.rollout);
  }
  return out;
}

std::vector<int64_t> recorded_rollouts(const RecordedRun& run) {
  std::set<int64_t> out(run.rollouts().begin(), run.rollouts().end());
  for (const StepId& step : run.steps()) out.insert(step.rollout);
  return {out.begin(), out.end()};
}

RecordedRollout read_recorded_rollout(const RecordedRun& run, int64_t rollout) {
  return RolloutReader(run, rollout).read();
}

void check_replayable(const RecordedRun& run, const RecordedRollout& rollout) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::kIncomplete, "rollout " + std::to_string(rollout.id) + " " + why,
                run.path());
  };
  if (!rollout.data) refuse("was not recorded");
  if (!rollout.data->prompt_length) refuse("has no prompt lengths: it cannot be replayed");
  if (!rollout.has_groups()) {
    refuse("does not say which samples answer one prompt: it cannot be replayed");
  }
  if (!rollout.has_rewards()) refuse("has not the rewards of all samples: it cannot be replayed");
}

std::vector<engine::Sample> replayable_samples(const RecordedRun& run, int64_t rollout) {
  RecordedRollout read = RolloutReader(run, rollout).read_samples();
  check_replayable(run, read);
  return std::move(read.samples);
}

int64_t longest_prompt(const RecordedRun& run) {
  int64_t out = 0;
  if (run.rollouts().empty()) return out;
  for (const engine::Sample& s : replayable_samples(run, run.rollouts().front())) {
    out = std::max(out, s.prompt_length);
  }
  return out;
}

}  // namespace rlreplay::replay
