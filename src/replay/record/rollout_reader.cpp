#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "format/unit.h"
#include "src/base/error.h"
#include "src/base/hash.h"
#include "src/base/number_text.h"
#include "src/base/numbers.h"
#include "src/replay/record/rank_scalars.h"
#include "src/replay/record/recorded_step.h"
#include "src/replay/record/step_member.h"

namespace rlreplay::replay {
namespace {

using format::RolloutData;
using format::TokenFloats;
using format::TrainData;

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
std::vector<double> response_of(const std::optional<TokenFloats>& column, const Row& at) {
  std::vector<double> out;
  if (!column || !column->has(at.row)) return out;
  out.reserve(at.end - at.response);
  for (uint64_t t = at.response; t < at.end; ++t) out.push_back(column->at(t));
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
std::optional<Nuclei> nuclei_of(const RolloutData& data, const Row& at) {
  if (!data.nucleus || !data.nucleus->has(at.row)) return std::nullopt;
  const format::TokenSets& sets = *data.nucleus;
  uint64_t first = sets.offsets[at.row];
  for (uint64_t t = at.begin; t < at.response; ++t) first += sets.sizes[t];
  Nuclei out;
  out.offsets.reserve(at.end - at.response + 1);
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

/// Why a rollout cannot be read, with the code that a checker gives it.
class Refusal : public Error {
 public:
  Refusal(const char* code, std::optional<uint64_t> sample, ErrorCode error,
          const std::string& message, const std::string& where)
      : Error(error, message, where), problem_(code), sample_(sample) {}
  const char* problem() const { return problem_; }
  std::optional<uint64_t> sample() const { return sample_; }

 private:
  const char* problem_;
  std::optional<uint64_t> sample_;
};

/// What one rank recorded of a step.
struct RankData {
  TrainData data;
  const format::UnitRecord* unit = nullptr;
  uint64_t held = 0;  // bytes of `data`
};

/// Which samples a rank holds, in whatever order.
Hash samples_of(const TrainData& data) {
  std::vector<uint64_t> ids = data.sample_id;
  std::ranges::sort(ids);
  return hash_of(std::as_bytes(std::span(ids)));
}

/// Samples and their micro-batches, by sample.
std::vector<std::pair<uint64_t, uint32_t>> by_sample(const TrainData& data) {
  std::vector<std::pair<uint64_t, uint32_t>> out;
  for (size_t row = 0; row < data.size(); ++row) {
    out.emplace_back(data.sample_id[row], (*data.micro_batch)[row]);
  }
  std::ranges::sort(out);
  return out;
}

/// As they were decoded: what is read as binary64 counts as it was stored.
uint64_t bytes_of(const std::optional<TokenFloats>& column, const Row& at) {
  if (!column || !column->has(at.row)) return 0;
  return (at.end - at.response) * (column->is_wide() ? sizeof(double) : sizeof(float));
}

uint64_t bytes_of_nuclei(const RolloutData& data, const Row& at) {
  if (!data.nucleus || !data.nucleus->has(at.row)) return 0;
  const std::vector<uint64_t>& offsets = data.nucleus->offsets;
  return (at.end - at.response) * sizeof(uint64_t) +
         (offsets[at.row + 1] - offsets[at.row]) * sizeof(int32_t);
}

uint64_t bytes_of(const Sample& s) {
  uint64_t out = sizeof s + s.tokens.size() * sizeof(int32_t) + s.loss_mask.size() +
                 s.rollout_log_probs.size() * sizeof(float);
  if (s.nuclei) out += s.nuclei->offsets.size() * sizeof(uint64_t) + s.nuclei->ids.size() * 4;
  return out;
}

class RolloutReader {
 public:
  /// With `problems` refusals are added there, and what is refused is left out.
  RolloutReader(const RecordedRun& run, int64_t rollout, RecordProblems* problems = nullptr)
      : run_(run), problems_(problems) {
    out_.id = rollout;
    const auto units = run.dump().find("rollout", std::to_string(rollout));
    if (!units.empty()) unit_ = units.front();
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
      guarded(generated_unit(), [&] { out_.steps.push_back(untrained()); });
    }
    return std::move(out_);
  }

  RecordedRollout read_samples() && {
    add_samples();
    return std::move(out_);
  }

 private:
  std::string generated_unit() const { return "rollout/" + std::to_string(out_.id); }

  template <class Work>
  void guarded(const std::string& unit, Work work) const {
    if (problems_ == nullptr) return work();
    try {
      work();
    } catch (const Refusal& refusal) {
      problems_->add({refusal.problem(), unit, "", refusal.what(), refusal.sample()});
    }
  }

  void add_samples() {
    for (size_t i = 0; out_.data && i < out_.data->size(); ++i) {
      const uint64_t id = out_.data->sample_id[i];
      RecordedFields& fields = out_.fields.emplace_back();
      Sample& s = out_.samples.emplace_back();
      s.id = id;
      take_sample_fields(i, s, fields);
      if (out_.data->prompt_length) {
        guarded(generated_unit(), [&] { take_tokens(i, s, fields); });
      }
    }
  }

  void take_tokens(size_t i, Sample& s, RecordedFields& fields) const {
    const Row at = generated_row(i, (*out_.data->prompt_length)[i]);
    hold((at.end - at.begin) * sizeof(int32_t) + (at.end - at.response) + generated_bytes(at));
    s.prompt_length = static_cast<int64_t>(at.response - at.begin);
    s.tokens = tokens_of(out_.data->tokens, at.begin, at.end);
    const auto mask = generated_mask(at);
    fields.mask = mask.has_value();
    s.loss_mask = mask.value_or(std::vector<uint8_t>(at.end - at.response, 1));
    s.rollout_log_probs = narrowed(response_of(out_.data->log_probs, at));
    s.nuclei = nuclei_of(*out_.data, at);
  }

  /// Of a rollout's sample, what a step takes of its response.
  uint64_t generated_bytes(const Row& at) const {
    return bytes_of(out_.data->log_probs, at) + bytes_of_nuclei(*out_.data, at);
  }

  /// Before so many bytes more are made of the unit at hand.
  void hold(uint64_t bytes) const { held_.hold(*unit_, "", bytes); }

  /// Of a rollout's sample: zeros where it was taken out of training.
  std::optional<std::vector<uint8_t>> generated_mask(const Row& at) const {
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
    std::vector<RankData> ranks = read_ranks(step, out);
    check_ranks(step, ranks);
    const std::map<uint64_t, uint64_t> prompts = prompts_of(ranks);
    std::vector<StepMember> members;
    std::map<uint64_t, size_t> places;
    for (RankData& rank : ranks) {
      unit_ = rank.unit;
      held_.give_back(rank.held);  // its columns become the members'
      for (size_t row = 0; row < rank.data.size(); ++row) {
        guarded("train/" + step.group(), [&] {
          StepMember member = member_of(rank, row, prompts);
          const auto [at, fresh] = places.emplace(member.id, members.size());
          fresh ? members.push_back(std::move(member))
                : join(step, members[at->second], std::move(member));
        });
      }
      rank.data = {};
    }
    for (StepMember& member : members) {
      guarded("train/" + step.group(), [&] { add(out, member); });
    }
    drop_empty(out);
    join_rollout_log_probs(out);
    return out;
  }

  std::vector<RankData> read_ranks(const StepId& step, RecordedStep& out) const {
    std::vector<RankData> ranks;
    std::vector<std::pair<int64_t, format::NamedColumns>> scalars;
    for (const auto* unit : run_.dump().find("train", step.group())) {
      const format::UnitReader reader = run_.dump().open_unit(*unit);
      if (reader.find(step.group() + "/sample_id") == nullptr) continue;  // events alone
      const uint64_t before = held_.bytes();
      TrainData data = format::read_train_data(run_.dump(), reader, step.group(), &held_);
      if (data.scalars) scalars.emplace_back(format::rank_of(unit->path), *data.scalars);
      ranks.push_back({std::move(data), unit, held_.bytes() - before});
    }
    out.scalars = join_scalars(scalars);
    return ranks;
  }

  /// What ranks may not say differently beside the samples' own columns (format/SPEC.md, train).
  void check_ranks(const StepId& step, const std::vector<RankData>& ranks) const {
    std::map<std::string, const RankData*> by_name;  // whoever says a number of the step's first
    std::map<Hash, std::vector<const RankData*>> replicas;
    for (const RankData& rank : ranks) {
      check_scalars(step, rank, ScalarOf::kStep, by_name);
      replicas[samples_of(rank.data)].push_back(&rank);
    }
    for (const auto& [samples, alike] : replicas) {
      by_name.clear();
      const RankData* packed = nullptr;  // whoever says how first
      for (const RankData* rank : alike) {
        check_scalars(step, *rank, ScalarOf::kSamples, by_name);
        if (!rank->data.micro_batch) continue;
        if (packed != nullptr) check_packing(step, *packed, *rank);
        if (packed == nullptr) packed = rank;
      }
    }
  }

  void check_scalars(const StepId& step, const RankData& rank, ScalarOf of,
                     std::map<std::string, const RankData*>& by_name) const {
    if (!rank.data.scalars) return;
    const format::NamedColumns& own = *rank.data.scalars;
    for (size_t i = 0; i < own.names.size(); ++i) {
      if (scalar_of(own.names[i]) != of) continue;
      const RankData& first = *by_name.emplace(own.names[i], &rank).first->second;
      const double said = *first.data.scalars->find(own.names[i]);
      if (&first == &rank || same_value(own.values[i], said)) continue;
      guarded("train/" + step.group(), [&] {
        throw Refusal("replica-mismatch", std::nullopt, ErrorCode::kCorrupt,
                      "step " + step.name() + " has another " + own.names[i] + " in " +
                          rank.unit->path + " than in " + first.unit->path + " (" +
                          shortest_of(own.values[i]) + ", not " + shortest_of(said) +
                          (of == ScalarOf::kStep ? "): it is one number for all ranks of a step"
                                                 : "): both hold the same samples"),
                      run_.path());
      });
    }
  }

  /// Of two ranks that hold the same samples.
  void check_packing(const StepId& step, const RankData& first, const RankData& rank) const {
    const auto packed = by_sample(first.data), other = by_sample(rank.data);
    const auto parted = std::ranges::mismatch(packed, other);
    const auto at = parted.in1, differs = parted.in2;  // clang captures no structured binding
    if (at == packed.end()) return;
    guarded("train/" + step.group(), [&] {
      throw Refusal("replica-mismatch", at->first, ErrorCode::kCorrupt,
                    "sample " + std::to_string(at->first) + " of step " + step.name() +
                        " has another micro_batch in " + rank.unit->path + " than in " +
                        first.unit->path + " (" + std::to_string(differs->second) + ", not " +
                        std::to_string(at->second) + "): both hold the same samples",
                    run_.path());
    });
  }

  /// The lengths of the prompts of a step's samples: the first rank's that says it, else the
  /// rollout's.
  std::map<uint64_t, uint64_t> prompts_of(const std::vector<RankData>& ranks) const {
    std::map<uint64_t, uint64_t> prompts;
    for (const auto& [data, unit, held] : ranks) {
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
  StepMember member_of(const RankData& rank, size_t row,
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
      const Row from = generated_row(generated->second, prompt);
      if (from.end - from.begin != rank.data.offsets[row + 1] - rank.data.offsets[row]) {
        contradicts("length-mismatch", id, "length");
      }
      check_tokens(rank.data, row, from);
    }
    row_of(id, row, rank.data.offsets, prompt);
    hold(kRowBytes + StepMember::bytes_of(rank.data, row, prompt));
    return StepMember::of(rank.data, row, prompt, rank.unit->path);
  }

  void check_tokens(const TrainData& data, size_t row, const Row& from) const {
    if (!data.tokens) return;
    const auto trained = data.tokens->begin() + static_cast<ptrdiff_t>(data.offsets[row]);
    const auto begin = out_.data->tokens.begin() + static_cast<ptrdiff_t>(from.begin);
    const auto end = out_.data->tokens.begin() + static_cast<ptrdiff_t>(from.end);
    const auto at = std::mismatch(begin, end, trained).first;
    if (at == end) return;
    contradicts("token-mismatch", data.sample_id[row], "token " + std::to_string(at - begin));
  }

  void join(const StepId& step, StepMember& to, StepMember&& from) const {
    const std::string unit = from.unit;
    const auto differs = merge(to, std::move(from));
    if (!differs) return;
    const bool twice = to.unit == unit;
    throw Refusal("replica-mismatch", to.id, ErrorCode::kCorrupt,
                  "sample " + std::to_string(to.id) + " of step " + step.name() +
                      (twice ? " stands twice in " + to.unit + ", with other " : " has other ") +
                      differs->field + (twice ? "" : " in " + unit + " than in " + to.unit) + " (" +
                      (differs->token ? "token " + std::to_string(*differs->token) + ": " : "") +
                      differs->from + ", not " + differs->to +
                      "): which of them was trained on cannot be known",
                  run_.path());
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
      const Row from = generated_row(known->second, member.prompt);
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

  Row row_of(uint64_t id, size_t row, const std::vector<uint64_t>& offsets, uint64_t prompt) const {
    const Row out{row, offsets[row], offsets[row] + prompt, offsets[row + 1]};
    if (prompt > 0 && out.response <= out.end) return out;
    throw Refusal("not-readable", id, ErrorCode::kCorrupt,
                  "sample " + std::to_string(id) + " of rollout " + std::to_string(out_.id) +
                      " has no prompt, or one longer than itself",
                  run_.path());
  }

  Row generated_row(size_t row, uint64_t prompt) const {
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
    const Row from = generated_row(known->second, static_cast<uint64_t>(s.prompt_length));
    hold(bytes_of(out_.data->log_probs, from));
    return response_of(out_.data->log_probs, from);
  }

  [[noreturn]] void lacks(uint64_t id, const std::string& what) const {
    throw Refusal("not-readable", id, ErrorCode::kIncomplete,
                  "neither the step nor rollout " + std::to_string(out_.id) + " holds the " + what +
                      " of sample " + std::to_string(id) +
                      ": import the rollout dump together with the train dump",
                  run_.path());
  }

  [[noreturn]] void contradicts(const char* code, uint64_t id, const std::string& what) const {
    throw Refusal(code, id, ErrorCode::kCorrupt,
                  "sample " + std::to_string(id) + " has another " + what +
                      " in the step than in rollout " + std::to_string(out_.id),
                  run_.path());
  }

  /// What a sample takes in the tables by id and among the columns of a step.
  static constexpr uint64_t kRowBytes = 128;

  const RecordedRun& run_;
  RecordProblems* problems_;
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
