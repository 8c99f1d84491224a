#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "src/replay/record/record_refusal.h"
#include "src/replay/record/recorded_step.h"
#include "src/replay/record/sample_row.h"
#include "src/replay/record/step_member.h"
#include "src/replay/record/step_ranks.h"

namespace rlreplay::replay {
namespace {

using format::RolloutData;
using format::TrainData;

template <class T>
void take(const std::optional<format::Column<T>>& column, size_t row, T& to, bool& recorded) {
  recorded = column && column->has(row);
  if (recorded) to = column->values[row];
}

void take(const std::optional<format::Column<uint64_t>>& column, size_t row,
          std::optional<uint64_t>& to) {
  if (column && column->has(row)) to = column->values[row];
}

uint64_t bytes_of(const Sample& s) {
  uint64_t out = sizeof s + s.tokens.size() * sizeof(int32_t) + s.loss_mask.size() +
                 s.rollout_log_probs.size() * sizeof(float);
  if (s.nuclei) out += s.nuclei->offsets.size() * sizeof(uint64_t) + s.nuclei->ids.size() * 4;
  return out;
}

/// One rollout of a record: samples in the order of its data, then each step, put together from its
/// ranks. What is read is counted in held_ before memory is taken for it; what is refused goes to
/// guard_, which throws or notes it.
class RolloutReader {
 public:
  /// Reads a rollout; with `problems`, refusals are added there and what is refused is left out.
  RolloutReader(const RecordedRun& run, int64_t rollout, RecordProblems* problems = nullptr)
      : run_(run), guard_(problems) {
    out_.id = rollout;
    const auto units = run.dump().find("rollout", std::to_string(rollout));
    if (!units.empty()) unit_ = units[0];  // in whose name all are counted
    out_.data = format::find_rollout_data(run.dump(), rollout, &held_);
    if (out_.data) hold(out_.data->size() * kRowBytes);
    for (size_t i = 0; out_.data && i < out_.data->size(); ++i) {
      out_.rows.emplace(out_.data->sample_id[i], i);
    }
  }

  RecordedRollout read() && {
    add_samples();
    for (const StepId& step : run_.steps()) {
      if (step.rollout == out_.id) out_.steps.push_back(read_step(step));
    }
    if (out_.steps.empty() && out_.data) {
      guard_.run(generated_unit(), [&] { out_.steps.push_back(untrained()); });
    }
    return std::move(out_);
  }

  RecordedRollout read_samples() && {
    add_samples();
    return std::move(out_);
  }

 private:
  std::string generated_unit() const { return "rollout/" + std::to_string(out_.id); }

  void add_samples() {
    for (size_t i = 0; out_.data && i < out_.data->size(); ++i) {
      const uint64_t id = out_.data->sample_id[i];
      RecordedFields& fields = out_.fields.emplace_back();
      Sample& s = out_.samples.emplace_back();
      s.id = id;
      take_sample_fields(i, s, fields);
      if (out_.data->prompt_length) {
        guard_.run(generated_unit(), [&] { take_tokens(i, s, fields); });
      }
    }
  }

  void take_tokens(size_t i, Sample& s, RecordedFields& fields) const {
    const SampleRow at = generated_row(i, (*out_.data->prompt_length)[i]);
    hold((at.end - at.begin) * sizeof(int32_t) + (at.end - at.response) + generated_bytes(at));
    s.prompt_length = static_cast<int64_t>(at.response - at.begin);
    s.tokens = tokens_of(out_.data->tokens, at.begin, at.end);
    const auto mask = generated_mask(at);
    fields.mask = mask.has_value();
    s.loss_mask = mask.value_or(std::vector<uint8_t>(at.end - at.response, 1));
    s.rollout_log_probs = narrowed(response_of(out_.data->log_probs, at));
    s.nuclei = nuclei_of(*out_.data, at);
  }

  /// The bytes that a step takes of the response of a rollout's sample.
  uint64_t generated_bytes(const SampleRow& at) const {
    return bytes_of_response(out_.data->log_probs, at) + bytes_of_nuclei(*out_.data, at);
  }

  /// Counts so many bytes more of the unit at hand, before they are made. Errors: kDataLimit.
  void hold(uint64_t bytes) const { held_.hold(*unit_, "", bytes); }

  /// The mask of a rollout's sample: zeros where it was taken out of training.
  std::optional<std::vector<uint8_t>> generated_mask(const SampleRow& at) const {
    const auto& removed = out_.data->removed;
    if (!removed || !removed->has(at.row) || removed->values[at.row] == 0) {
      return mask_of(out_.data->loss_mask, at);
    }
    return std::vector<uint8_t>(at.end - at.response, 0);
  }

  RecordedStep untrained() const {
    RecordedStep out;
    out.id = {out_.id, 0};
    for (const Sample& s : out_.samples) {
      if (s.tokens.empty()) lacks(s.id, "prompt length");
      hold(bytes_of(s));
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
    std::vector<StepRank> ranks = format::read_train_ranks(run_.dump(), step.group(), held_);
    out.scalars = scalars_of(ranks);
    check_step_ranks(run_, step, ranks, guard_);
    const std::map<uint64_t, uint64_t> prompts = prompts_of(ranks);
    std::vector<StepMember> members;
    std::map<uint64_t, size_t> places;
    for (StepRank& rank : ranks) {
      unit_ = rank.unit;
      held_.give_back(rank.held);  // its columns become the members'
      out_.trained.insert(out_.trained.end(), rank.data.sample_id.begin(),
                          rank.data.sample_id.end());
      for (size_t row = 0; row < rank.data.size(); ++row) {
        guard_.run("train/" + step.group(), [&] {
          StepMember member = member_of(rank, row, prompts);
          const auto [at, fresh] = places.emplace(member.id, members.size());
          fresh ? members.push_back(std::move(member))
                : join_members(run_, step, members[at->second], std::move(member));
        });
      }
      rank.data = {};
    }
    for (StepMember& member : members) {
      guard_.run("train/" + step.group(), [&] { add(out, member); });
    }
    drop_empty(out);
    join_rollout_log_probs(out);
    return out;
  }

  /// The prompt lengths of a step's samples, by id, as the first rank says them, else the rollout.
  std::map<uint64_t, uint64_t> prompts_of(const std::vector<StepRank>& ranks) const {
    std::map<uint64_t, uint64_t> prompts;
    for (const auto& [data, unit, samples, held] : ranks) {
      for (size_t row = 0; data.prompt_length && row < data.size(); ++row) {
        prompts.emplace(data.sample_id[row], (*data.prompt_length)[row]);
      }
    }
    for (const auto& [id, row] : out_.rows) {
      if (out_.data->prompt_length) prompts.emplace(id, (*out_.data->prompt_length)[row]);
    }
    return prompts;
  }

  /// A row of a rank, held against the rollout's sample.
  StepMember member_of(const StepRank& rank, size_t row,
                       const std::map<uint64_t, uint64_t>& prompts) const {
    const uint64_t id = rank.data.sample_id[row];
    const auto known = prompts.find(id);
    if (known == prompts.end()) lacks(id, "prompt length");
    const bool own = rank.data.prompt_length.has_value();
    const uint64_t prompt = own ? (*rank.data.prompt_length)[row] : known->second;
    const auto generated = out_.rows.find(id);
    if (generated != out_.rows.end()) {
      const RolloutData& of = *out_.data;
      if (of.prompt_length && (*of.prompt_length)[generated->second] != prompt) {
        contradicts("prompt-mismatch", id, "prompt");
      }
      const SampleRow from = generated_row(generated->second, prompt);
      if (from.end - from.begin != rank.data.offsets[row + 1] - rank.data.offsets[row]) {
        contradicts("length-mismatch", id, "length");
      }
      check_tokens(rank.data, row, from);
    }
    row_of(id, row, rank.data.offsets, prompt);
    hold(kRowBytes + StepMember::bytes_of(rank.data, row, prompt));
    return StepMember::of(rank.data, row, prompt, rank.unit->path);
  }

  void check_tokens(const TrainData& data, size_t row, const SampleRow& from) const {
    if (!data.tokens) return;
    const auto trained = data.tokens->begin() + static_cast<ptrdiff_t>(data.offsets[row]);
    const auto begin = out_.data->tokens.begin() + static_cast<ptrdiff_t>(from.begin);
    const auto end = out_.data->tokens.begin() + static_cast<ptrdiff_t>(from.end);
    const auto at = std::mismatch(begin, end, trained).first;
    if (at == end) return;
    contradicts("token-mismatch", data.sample_id[row], "token " + std::to_string(at - begin));
  }

  /// A sample of all ranks, completed by the rollout.
  void add(RecordedStep& out, StepMember& member) const {
    Sample sample;
    RecordedFields fields;
    sample.id = member.id;
    sample.prompt_length = static_cast<int64_t>(member.prompt);
    const auto known = out_.rows.find(member.id);
    if (known == out_.rows.end() && !member.tokens) lacks(member.id, "tokens");
    fields.own_mask = member.loss_mask.has_value();
    if (known != out_.rows.end()) {
      const SampleRow from = generated_row(known->second, member.prompt);
      take_sample_fields(known->second, sample, fields);
      hold((member.tokens ? 0 : (from.end - from.begin) * sizeof(int32_t)) + generated_bytes(from));
      if (!member.tokens) member.tokens = tokens_of(out_.data->tokens, from.begin, from.end);
      if (!member.loss_mask) member.loss_mask = generated_mask(from);
      sample.rollout_log_probs = narrowed(response_of(out_.data->log_probs, from));
      sample.nuclei = nuclei_of(*out_.data, from);
    }
    fields.mask = member.loss_mask.has_value();
    if (!fields.own_mask) hold(*member.length - member.prompt);
    sample.tokens = std::move(*member.tokens);
    sample.loss_mask = std::move(member.loss_mask)
                           .value_or(std::vector<uint8_t>(*member.length - member.prompt, 1));
    if (member.trajectory_id) sample.trajectory = member.trajectory_id;
    if (member.trajectory_tokens) {
      sample.trajectory_tokens = static_cast<int64_t>(*member.trajectory_tokens);
    }
    add_columns(out, member);
    fields.own_rollout_log_probs = out.rollout_log_probs && !out.rollout_log_probs->back().empty();
    out.samples.push_back(std::move(sample));
    out.fields.push_back(fields);
  }

  static void add_columns(RecordedStep& out, StepMember& member) {
    const auto columns = step_columns();
    for (size_t c = 0; c < columns.size(); ++c) {
      TokenColumn& column = out.*columns[c].column;
      if (!column) column.emplace();
      auto& values = column->emplace_back();
      if (!member.columns[c]) continue;
      values = std::move(*member.columns[c]);
      member.columns[c].reset();
    }
    if (out.samples.empty()) out.shaped.emplace();
    if (!member.rewards) out.shaped.reset();
    if (out.shaped) out.shaped->push_back(*member.rewards);
  }

  /// Columns that no sample has.
  static void drop_empty(RecordedStep& out) {
    for (const StepColumn& of : step_columns()) {
      TokenColumn& column = out.*of.column;
      const auto empty = [](const std::vector<double>& values) { return values.empty(); };
      if (column && std::ranges::all_of(*column, empty)) column.reset();
    }
  }

  SampleRow row_of(uint64_t id, size_t row, const std::vector<uint64_t>& offsets,
                   uint64_t prompt) const {
    const SampleRow out{row, offsets[row], offsets[row] + prompt, offsets[row + 1]};
    if (prompt > 0 && out.response <= out.end) return out;
    throw RecordRefusal("not-readable", id, ErrorCode::kCorrupt,
                        "sample " + std::to_string(id) + " of rollout " + std::to_string(out_.id) +
                            " has no prompt, or one longer than itself",
                        run_.path());
  }

  SampleRow generated_row(size_t row, uint64_t prompt) const {
    return row_of(out_.data->sample_id[row], row, out_.data->offsets, prompt);
  }

  void take_sample_fields(size_t row, Sample& s, RecordedFields& fields) const {
    take(out_.data->group_id, row, s.group, fields.group);
    take(out_.data->rewards, row, s.reward, fields.reward);
    take(out_.data->trajectory_id, row, s.trajectory);
  }

  /// The sampler's log-probabilities: the trainer's copy where it has one, else the rollout's.
  void join_rollout_log_probs(RecordedStep& step) const {
    bool any = false;
    std::vector<std::vector<double>> joined;
    for (size_t i = 0; i < step.samples.size(); ++i) {
      Sample& s = step.samples[i];
      const bool own = step.rollout_log_probs && !(*step.rollout_log_probs)[i].empty();
      joined.push_back(own ? std::move((*step.rollout_log_probs)[i]) : generated_log_probs(s));
      s.rollout_log_probs = narrowed(joined.back());
      any = any || !joined.back().empty();
    }
    step.rollout_log_probs.reset();
    if (any) step.rollout_log_probs = std::move(joined);
  }

  std::vector<double> generated_log_probs(const Sample& s) const {
    const auto known = out_.rows.find(s.id);
    if (known == out_.rows.end()) return {};
    const SampleRow from = generated_row(known->second, static_cast<uint64_t>(s.prompt_length));
    hold(bytes_of_response(out_.data->log_probs, from));
    return response_of(out_.data->log_probs, from);
  }

  [[noreturn]] void lacks(uint64_t id, const std::string& what) const {
    throw RecordRefusal("not-readable", id, ErrorCode::kIncomplete,
                        "neither the step nor rollout " + std::to_string(out_.id) + " holds the " +
                            what + " of sample " + std::to_string(id) +
                            ": import the rollout dump together with the train dump",
                        run_.path());
  }

  [[noreturn]] void contradicts(const char* code, uint64_t id, const std::string& what) const {
    throw RecordRefusal(code, id, ErrorCode::kCorrupt,
                        "sample " + std::to_string(id) + " has another " + what +
                            " in the step than in rollout " + std::to_string(out_.id),
                        run_.path());
  }

  /// What a sample takes in the tables by id and among the columns of a step.
  static constexpr uint64_t kRowBytes = 128;

  const RecordedRun& run_;
  RefusalGuard guard_;
  const format::UnitRecord* unit_ = nullptr;  // at hand
  mutable format::HeldBytes held_;            // of the rollout and all of its steps
  RecordedRollout out_;
};

}  // namespace

RecordedRollout read_recorded_rollout(const RecordedRun& run, int64_t rollout) {
  return RolloutReader(run, rollout).read();
}

RecordedRollout read_recorded_rollout(const RecordedRun& run, int64_t rollout,
                                      RecordProblems& problems) {
  return RolloutReader(run, rollout, &problems).read();
}

std::vector<Sample> replayable_samples(const RecordedRun& run, int64_t rollout) {
  RecordedRollout read = RolloutReader(run, rollout).read_samples();
  check_replayable(run, read);
  return std::move(read.samples);
}

}  // namespace rlreplay::replay
