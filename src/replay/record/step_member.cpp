#include "src/replay/record/step_member.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "src/base/number_text.h"
#include "src/base/same_value.h"
#include "src/replay/record/sample_row.h"

namespace rlreplay::replay {
namespace {

/// Where two values are not the same, an element of a list or 0 of a number, and what they are.
struct Differing {
  size_t at = 0;
  std::string to, from;
};

template <class T>
std::string text_of(T value) {
  if constexpr (std::is_floating_point_v<T>) return shortest_of(value);
  if constexpr (std::is_integral_v<T>) return std::to_string(+value);
}

template <class T>
std::optional<Differing> difference(const std::vector<T>& a, const std::vector<T>& b) {
  const auto at = std::ranges::mismatch(a, b, [](T x, T y) { return same_value(x, y); });
  if (at.in1 == a.end() && at.in2 == b.end()) return std::nullopt;
  return Differing{static_cast<size_t>(at.in1 - a.begin()),
                   at.in1 == a.end() ? "nothing" : text_of(*at.in1),
                   at.in2 == b.end() ? "nothing" : text_of(*at.in2)};
}

template <class T>
std::optional<Differing> difference(T a, T b) {
  if (same_value(a, b)) return std::nullopt;
  return Differing{0, text_of(a), text_of(b)};
}

template <class T>
std::optional<Differing> take(std::optional<T>& to, std::optional<T>& from) {
  if (to && from) return difference(*to, *from);
  if (from) to = std::move(from);
  return std::nullopt;
}

/// For which tokens of a sample a field has an element each: for none, for all, for its response's.
enum class Elements { kNone, kSample, kResponse };

struct MergeRule {
  const char* field;
  Elements elements;
  std::optional<Differing> (*take)(StepMember& to, StepMember& from);
};

template <auto Member>
std::optional<Differing> same(StepMember& to, StepMember& from) {
  return take(to.*Member, from.*Member);
}

/// The fields in which two ranks must be the same where both have them; so must columns of floats.
/// `micro_batch` and `scalars` are of a rank, not of a sample: the reader compares them by rank.
constexpr MergeRule kMustAgree[] = {
    {"length", Elements::kNone, same<&StepMember::length>},
    {"prompt_length", Elements::kNone, same<&StepMember::prompt_length>},
    {"tokens", Elements::kSample, same<&StepMember::tokens>},
    {"loss_mask", Elements::kResponse, same<&StepMember::loss_mask>},
    {"rewards", Elements::kNone, same<&StepMember::rewards>},
    {"trajectory_id", Elements::kNone, same<&StepMember::trajectory_id>},
    {"trajectory_tokens", Elements::kNone, same<&StepMember::trajectory_tokens>},
    {"token_weights", Elements::kSample, same<&StepMember::token_weights>},
};

template <class T, class To>
void take_number(const std::optional<format::Column<T>>& column, size_t row, To& to) {
  if (column && column->has(row)) to = column->values[row];
}

}  // namespace

uint64_t StepMember::bytes_of(const format::TrainData& data, size_t row, uint64_t prompt) {
  const uint64_t tokens = data.offsets[row + 1] - data.offsets[row], response = tokens - prompt;
  uint64_t out = sizeof(StepMember);
  if (data.tokens) out += tokens * sizeof(int32_t);
  if (data.loss_mask && data.loss_mask->has(row)) out += response;
  if (data.token_weights) out += tokens * sizeof(double);
  for (const format::TokenColumnField& field : format::kTokenColumnFields) {
    const auto& column = data.*field.column;
    if (!column || !column->has(row)) continue;
    out += response * (column->is_wide() ? sizeof(double) : sizeof(float));
  }
  return out;
}

StepMember StepMember::of(const format::TrainData& data, size_t row, uint64_t prompt,
                          std::string unit) {
  const uint64_t begin = data.offsets[row], end = data.offsets[row + 1];
  const uint64_t response = begin + prompt;
  StepMember out;
  out.id = data.sample_id[row];
  out.unit = std::move(unit);
  out.prompt = prompt;
  out.length = end - begin;
  if (data.prompt_length) out.prompt_length = (*data.prompt_length)[row];
  if (data.tokens) out.tokens = tokens_of(*data.tokens, begin, end);
  if (data.loss_mask && data.loss_mask->has(row)) {
    out.loss_mask = tokens_of(data.loss_mask->values, response, end);
  }
  take_number(data.rewards, row, out.rewards);
  take_number(data.trajectory_id, row, out.trajectory_id);
  take_number(data.trajectory_tokens, row, out.trajectory_tokens);
  if (data.token_weights) out.token_weights = tokens_of(*data.token_weights, begin, end);
  for (size_t c = 0; c < out.columns.size(); ++c) {
    const auto& column = data.*format::kTokenColumnFields[c].column;
    if (!column || !column->has(row)) continue;
    auto& values = out.columns[c].emplace();
    values.reserve(end - response);
    for (uint64_t t = response; t < end; ++t) values.push_back(column->at(t));
  }
  return out;
}

std::optional<MemberDifference> merge(StepMember& to, StepMember&& from) {
  for (const MergeRule& rule : kMustAgree) {
    const auto at = rule.take(to, from);
    if (!at) continue;
    std::optional<uint64_t> token;
    if (rule.elements == Elements::kSample) token = at->at;
    if (rule.elements == Elements::kResponse) token = at->at + to.prompt;
    return MemberDifference{rule.field, token, at->to, at->from};
  }
  for (size_t c = 0; c < to.columns.size(); ++c) {
    const auto at = take(to.columns[c], from.columns[c]);
    const std::string_view name = format::kTokenColumnFields[c].name;
    if (at) return MemberDifference{std::string(name), at->at + to.prompt, at->to, at->from};
  }
  return std::nullopt;
}

}  // namespace rlreplay::replay
