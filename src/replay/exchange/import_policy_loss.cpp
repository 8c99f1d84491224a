#include "src/replay/exchange/import_policy_loss.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <span>
#include <tuple>

#include "src/base/hash.h"
#include "src/base/number_text.h"
#include "src/base/words.h"

namespace rlreplay::replay {
namespace {

using format::TokenFloats;
using format::TrainData;

std::string key_of(size_t total, std::span<const float> log_probs) {
  std::string out = std::to_string(total) + "/";
  out.append(reinterpret_cast<const char*>(log_probs.data()), log_probs.size_bytes());
  return hash_of(out).hex();
}

void put(std::optional<TokenFloats>& column, const TrainData& step, size_t row,
         const std::vector<float>& response) {
  if (response.empty()) return;
  if (!column) {
    column.emplace();
    column->narrow.resize(step.offsets.back());
    column->presence.assign(step.size(), 0);
  }
  std::copy(
      response.begin(), response.end(),
      column->narrow.begin() + static_cast<ptrdiff_t>(step.offsets[row + 1] - response.size()));
  column->presence[row] = 1;
}

/// All have it: no mask is kept.
void drop_full_presence(std::optional<TokenFloats>& column) {
  if (!column) return;
  for (const uint8_t present : column->presence) {
    if (present == 0) return;
  }
  column->presence.clear();
}

size_t total_of(const TrainData& step, size_t sample) {
  return step.offsets[sample + 1] - step.offsets[sample];
}

size_t response_of(const TrainData& step, size_t sample) {
  return total_of(step, sample) - (*step.prompt_length)[sample];
}

/// What the training data say of a response, in the trainer's type; nothing where they do not.
std::optional<std::vector<float>> response_values(const TrainData& step, size_t sample,
                                                  const std::optional<TokenFloats>& column) {
  if (!column || !column->has(sample)) return std::nullopt;
  std::vector<float> out;
  for (size_t t = step.offsets[sample + 1] - response_of(step, sample);
       t < step.offsets[sample + 1]; ++t) {
    out.push_back(static_cast<float>(column->at(t)));
  }
  return out;
}

std::optional<std::vector<float>> response_mask(const TrainData& step, size_t sample) {
  if (!step.loss_mask || !step.loss_mask->has(sample)) return std::nullopt;
  const auto end =
      step.loss_mask->values.begin() + static_cast<ptrdiff_t>(step.offsets[sample + 1]);
  return std::vector<float>(end - static_cast<ptrdiff_t>(response_of(step, sample)), end);
}

/// What the training data say of a sample that its row repeats.
RepeatedColumns repeated(const TrainData& step, size_t sample) {
  return {response_values(step, sample, step.advantages), response_mask(step, sample),
          response_values(step, sample, step.rollout_log_probs)};
}

/// All that a row says of its tokens.
std::string hash_of_row(const PolicyLossRow& row) {
  std::vector<const std::vector<float>*> columns;
  for (const PolicyLossColumn& column : kPolicyLossColumns)
    columns.push_back(&(row.*column.column));
  return hash_of_values(columns);
}

/// What a row repeats of the training data and says otherwise: the place in the response.
struct Other {
  std::string_view column;
  size_t at;
  float found, said;
};

std::vector<Other> others(const PolicyLossRow& row, const TrainData& step, size_t sample) {
  constexpr std::array kNames = {"advantages", "local_loss_mask", "rollout_log_probs"};
  const RepeatedColumns said = repeated(step, sample);
  std::vector<Other> out;
  for (size_t i = 0; i < kNames.size(); ++i) {
    const std::vector<float>& found = row.*kRepeatedColumns[i];
    const auto at = found.empty() || !said[i] ? std::nullopt : first_other(found, *said[i]);
    if (at) out.push_back({kNames[i], *at, found[*at], (*said[i])[*at]});
  }
  return out;
}

std::string not_said(std::string_view column) {
  return std::string(column) + " of policy_loss_debug is not what the training data says";
}

}  // namespace

void PolicyLossRows::add(const foreign::TorchFile& file, const std::string& name) {
  any_ = true;
  std::vector<PolicyLossRow> rows = read_policy_loss(file, name);
  for (std::string& flag : untrue_flags(file, rows)) {
    constexpr const char* kUntrue =
        "policy_loss_debug says otherwise whether its numbers are finite";
    mismatches_.push_back({name, 0, {"policy-loss-mismatch", kUntrue, std::move(flag)}});
  }
  for (PolicyLossRow& made : rows) {
    if (made.index && *made.index != static_cast<int64_t>(made.place)) {
      mismatch(made, "a row of policy_loss_debug has another index than its place",
               "index " + std::to_string(*made.index));
    }
    if (made.is_slice()) {
      judge_mask(made);
      slices_[{made.total, made.response}].push_back(
          {name, made.place, made.old.size(), key_of(0, made.old)});
    } else {
      rows_[key_of(made.total, made.old)].add(std::move(made));
    }
  }
}

/// Of a row that is held against no training, which would say what its mask is.
void PolicyLossRows::judge_mask(const Row& row) {
  const auto odd = odd_mask(row);
  if (odd) mismatch(row, "local_loss_mask of policy_loss_debug is neither 0 nor 1", *odd);
}

void PolicyLossRows::mismatch(const Row& row, std::string message, const std::string& where) {
  mismatch(row.file, row.place, std::move(message), where);
}

void PolicyLossRows::mismatch(const std::string& file, size_t place, std::string message,
                              const std::string& where) {
  mismatches_.push_back({file,
                         place,
                         {"policy-loss-mismatch", std::move(message),
                          "row " + std::to_string(place) + ": " + where}});
}

PolicyLossRows::Rows::iterator PolicyLossRows::fitting(const TrainData& step, size_t sample) {
  const uint64_t begin = step.offsets[sample], end = step.offsets[sample + 1];
  const uint64_t response = begin + (*step.prompt_length)[sample];
  for (const auto* column : {&step.old_log_probs, &step.rollout_log_probs}) {
    if (!*column || (*column)->is_wide()) continue;
    const std::span<const float> old((*column)->narrow);
    const auto at = rows_.find(key_of(end - begin, old.subspan(response, end - response)));
    if (at != rows_.end()) return at;
  }
  return rows_.end();
}

PolicyLossRows::Row PolicyLossRows::take(Rows::iterator from, const TrainData& step,
                                         size_t sample) {
  Row row = from->second.take(repeated(step, sample));
  if (from->second.rows().empty()) {
    rows_.erase(from);
  } else {
    placed_[from->first].push_back(row);
  }
  return row;
}

/// A row that repeats the sampler's log-probabilities tells what its old ones should have been.
void PolicyLossRows::want(const TrainData& step, size_t sample, const std::string& step_name) {
  const std::pair lengths{total_of(step, sample), response_of(step, sample)};
  if (lengths.second == 0) return;
  if (slices_.contains(lengths)) {
    sliced_.insert(lengths);
    ++without_[step_name].slices;
    return;
  }
  ++without_[step_name].missing;
  auto old = response_values(step, sample, step.old_log_probs);
  const auto sampled = response_values(step, sample, step.rollout_log_probs);
  const auto know = [&](const std::optional<std::vector<float>>& values) {
    if (!values) return;
    known_.emplace(key_of(0, *values),
                   Lengths{step.sample_id[sample], step_name, lengths.first, lengths.second});
  };
  know(old);
  know(sampled);
  if (!old || !sampled) return;
  wanted_.emplace(
      key_of(lengths.first, *sampled),
      Wanted{step.sample_id[sample], step_name, (*step.prompt_length)[sample], std::move(*old)});
}

void PolicyLossRows::compare(const Row& row, const TrainData& step, size_t sample,
                             const std::string& step_name) {
  const std::string of =
      "sample " + std::to_string(step.sample_id[sample]) + " of step " + step_name;
  for (const Other& other : others(row, step, sample)) {
    mismatch(row, not_said(other.column),
             of + ", token " + std::to_string((*step.prompt_length)[sample] + other.at) + ": " +
                 shortest(other.found) + ", the training data says " + shortest(other.said));
  }
  if (!row.group_index || !row.index_in_group) return;
  const auto id = static_cast<int64_t>(step.sample_id[sample]);
  const int64_t group = *row.group_index, rest = id - *row.index_in_group;
  // Which size of groups puts the sample there; the first of the run is that of all.
  const bool divides = group > 0 && rest > 0 && rest % group == 0;
  if (divides && !group_size_) group_size_ = rest / group;
  const bool holds = group_size_ ? group == id / *group_size_ && rest == group * *group_size_
                                 : group == 0 && rest == 0;
  if (holds) return;
  mismatch(row, "group_index and in_group_id of policy_loss_debug are not those of the sample",
           of + ": " + std::to_string(group) + " and " + std::to_string(*row.index_in_group));
}

void PolicyLossRows::complete(TrainData& step, const std::string& step_name, bool cut) {
  if (!any_ || !step.prompt_length) return;
  placed_any_ = true;
  cut_ = cut_ || cut;
  for (size_t s = 0; s < step.size(); ++s) {
    const auto at = fitting(step, s);
    if (at == rows_.end()) {
      want(step, s, step_name);
      continue;
    }
    const Row row = take(at, step, s);
    compare(row, step, s, step_name);
    put(step.log_probs, step, s, row.current);
    put(step.policy_kl, step, s, row.policy_kl);
    put(step.policy_loss, step, s, row.policy_loss);
  }
  drop_full_presence(step.log_probs);
  drop_full_presence(step.policy_kl);
  drop_full_presence(step.policy_loss);
}

/// What is left of rows whose bits of old log-probabilities another row of the same sample has.
void PolicyLossRows::settle_copies() {
  for (const auto& [key, placed] : placed_) {
    const auto left = rows_.find(key);
    if (left == rows_.end()) continue;
    std::map<std::string, const Row*> by_values;  // the first of each
    for (const Row& row : placed) by_values.emplace(hash_of_row(row), &row);
    for (const auto& [place, row] : left->second.rows()) {
      const auto same = by_values.find(hash_of_row(row));
      compare_copy(row, placed.front(), same == by_values.end() ? nullptr : same->second);
    }
    rows_.erase(left);
  }
}

/// `first`: of the rows of its sample, `same`: the first of them that says the same.
void PolicyLossRows::compare_copy(const Row& row, const Row& first, const Row* same) {
  if (row.old.empty()) return;
  const auto text = [](const Row& of) { return of.file + ": row " + std::to_string(of.place); };
  if (same != nullptr) {
    if (same->rank != row.rank) return;  // another rank of tensor parallelism
    return mismatch(row, "a row of policy_loss_debug occurs twice", "as " + text(*same));
  }
  const PolicyLossColumn& column =
      *std::ranges::find_if(kPolicyLossColumns, [&](const PolicyLossColumn& one) {
        return first_other(row.*one.column, first.*one.column).has_value();
      });
  const std::vector<float>&found = row.*column.column, &said = first.*column.column;
  const size_t at = *first_other(found, said);
  const auto value = [&](const std::vector<float>& values) {
    return at < values.size() ? shortest(values[at]) : std::string("None");
  };
  mismatch(row,
           std::string(column.name) + " of policy_loss_debug differs between rows of one sample",
           "position " + std::to_string(at) + " of the response: " + value(found) + ", " +
               text(first) + " says " + value(said));
}

/// Rows of samples that are known by the sampler's log-probabilities alone.
void PolicyLossRows::settle_wanted() {
  for (auto left = rows_.begin(); left != rows_.end();) {
    auto& rows = left->second.rows();
    std::erase_if(rows, [&](const auto& row) { return is_wanted(row.second); });
    left = rows.empty() ? rows_.erase(left) : std::next(left);
  }
}

bool PolicyLossRows::is_wanted(const Row& row) {
  const auto at =
      row.sampled.empty() ? wanted_.end() : wanted_.find(key_of(row.total, row.sampled));
  if (at == wanted_.end()) return false;
  const Wanted& of = at->second;
  const auto t = first_other(row.old, of.old);
  if (!t) return false;
  mismatch(row, not_said("old_log_probs"),
           "sample " + std::to_string(of.sample) + " of step " + of.step + ", token " +
               std::to_string(of.prompt + *t) + ": " + shortest(row.old[*t]) +
               ", the training data says " + shortest(of.old[*t]));
  --without_[of.step].missing;
  std::erase_if(known_, [&](const auto& known) {
    return known.second.sample == of.sample && known.second.step == of.step;
  });
  wanted_.erase(at);
  return true;
}

bool PolicyLossRows::has_other_lengths(const std::string& file, size_t place,
                                       const std::string& old, size_t total, size_t response) {
  const auto at = known_.find(old);
  if (at == known_.end()) return false;
  const Lengths of = at->second;
  if (of.total == total && of.response == response) return false;
  const bool other = of.response != response;
  mismatch(file, place, not_said(other ? "response_length" : "total_length"),
           "sample " + std::to_string(of.sample) + " of step " + of.step + ": " +
               std::to_string(other ? response : total) + ", the training data says " +
               std::to_string(other ? of.response : of.total));
  --without_[of.step].missing;
  std::erase_if(known_, [&](const auto& known) {
    return known.second.sample == of.sample && known.second.step == of.step;
  });
  return true;
}

void PolicyLossRows::settle_lengths() {
  for (auto left = rows_.begin(); left != rows_.end();) {
    auto& rows = left->second.rows();
    std::erase_if(rows, [&](const auto& placed) {
      const Row& row = placed.second;
      return has_other_lengths(row.file, row.place, key_of(0, row.old), row.total, row.response);
    });
    left = rows.empty() ? rows_.erase(left) : std::next(left);
  }
  if (!placed_any_ || cut_) return;
  for (const auto& [lengths, slices] : slices_) {
    for (const Slice& slice : slices) {
      if (has_other_lengths(slice.file, slice.place, slice.old, lengths.first, lengths.second)) {
        continue;
      }
      mismatch(slice.file, slice.place,
               "a row of policy_loss_debug has other lengths than the training data, of which "
               "nothing is cut",
               "old_log_probs has " + std::to_string(slice.entries) + " entries" +
                   ", response_length is " + std::to_string(lengths.second));
    }
  }
  for (auto& [step, without] : without_) without.slices = 0;
  slices_.clear();
}

std::vector<PolicyLossFinding> PolicyLossRows::findings() {
  settle_copies();
  settle_wanted();
  settle_lengths();
  for (auto& left : rows_) {
    for (const auto& [place, row] : left.second.rows()) judge_mask(row);
  }
  std::vector<PolicyLossFinding> out = std::move(mismatches_);
  std::ranges::stable_sort(
      out, {}, [](const PolicyLossFinding& found) { return std::tie(found.file, found.row); });
  const auto add = [&](const char* code, std::string message, std::string where) {
    out.push_back({"", 0, {code, std::move(message), std::move(where)}});
  };
  std::map<std::string, size_t> unplaced;
  for (auto& [key, alike] : rows_) {
    for (const auto& [place, row] : alike.rows()) ++unplaced[row.file];
  }
  for (const auto& [lengths, files] : slices_) {
    for (const Slice& slice : files) unplaced[slice.file] += sliced_.contains(lengths) ? 0 : 1;
  }
  for (const auto& [file, count] : unplaced) {
    if (count == 0) continue;
    add("policy-loss-unplaced",
        counted(count, "row") +
            " fit no sample of the training data: they are kept in their file alone",
        file);
  }
  for (const auto& [step, without] : without_) {
    if (without.slices > 0) {
      add("policy-loss-unplaced",
          "the rows of policy_loss_debug for " + counted(without.slices, "sample") +
              " are slices of context parallelism, which are not placed: they are kept in their "
              "files alone",
          "step " + step);
    }
    if (without.missing == 0) continue;
    add("policy-loss-missing",
        "no row of policy_loss_debug fits " + counted(without.missing, "sample") +
            ": a file of the step is missing, or is another's",
        "step " + step);
  }
  return out;
}

}  // namespace rlreplay::replay
