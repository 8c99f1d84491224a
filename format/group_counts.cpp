#include "format/group_counts.h"

#include <algorithm>
#include <array>

#include "src/base/error.h"
#include "src/base/json_scan.h"
#include "src/base/number_text.h"
#include "src/base/words.h"

namespace rlreplay::format {
namespace {

template <class Member>
struct CountName {
  std::string_view name;
  std::optional<Member> GroupCounts::*member;
};

constexpr auto kNumbers = std::to_array<CountName<uint64_t>>({
    {"samples", &GroupCounts::samples},
    {"tokens", &GroupCounts::tokens},
    {"response_tokens", &GroupCounts::response_tokens},
    {"longest_response", &GroupCounts::longest_response},
    {"masked_tokens", &GroupCounts::masked_tokens},
    {"groups", &GroupCounts::groups},
});
constexpr auto kMeans = std::to_array<CountName<double>>({
    {"reward_mean", &GroupCounts::reward_mean},
    {"log_prob_mean", &GroupCounts::log_prob_mean},
});

uint64_t count_in(const ScannedValue& value) {
  return static_cast<uint64_t>(value.integer(0, INT64_MAX));
}

double float_in(const ScannedValue& value) {
  const auto number = parse_number<double>(value.string());
  if (!number)
    value.refuse("found \"" + std::string(value.string().substr(0, 40)) + "\", expected a number");
  return *number;
}

/// Counts, and the lists in them as they come.
struct Counted {
  GroupCounts counts;
  std::optional<std::vector<int64_t>> finish, versions;
};

/// Where a list begins it is empty; its elements come next.
template <class List>
bool has_begun(const ScannedValue& value, List& list) {
  if (!value.place().empty()) return false;
  value.begin_array();
  list.emplace();
  return true;
}

void add_number(const ScannedValue& value, std::optional<std::vector<int64_t>>& list) {
  if (!has_begun(value, list)) list->push_back(value.integer(INT64_MIN, INT64_MAX));
}

/// Pairs of a name and a number.
void add_scalar(const ScannedValue& value, std::optional<NamedColumns>& scalars) {
  if (has_begun(value, scalars)) return;
  if (value.place().size() == 1) return value.begin_array();
  if (value.place()[1] == 0) scalars->names.emplace_back(value.string());
  if (value.place()[1] == 1) scalars->values.push_back(float_in(value));
}

/// Members of another name are somebody else's.
void read_member(const ScannedValue& value, Counted& out) {
  const std::string_view name = value.member();
  if (value.is_null() && value.place().empty()) return;
  for (const auto& [known, member] : kNumbers) {
    if (name == known) return static_cast<void>(out.counts.*member = count_in(value));
  }
  for (const auto& [known, member] : kMeans) {
    if (name == known) return static_cast<void>(out.counts.*member = float_in(value));
  }
  auto& columns = out.counts.columns;
  if (name == "columns" && !has_begun(value, columns)) columns->emplace_back(value.string());
  if (name == "events") out.counts.events = value.boolean();
  if (name == "scalars") add_scalar(value, out.counts.scalars);
  if (name == "finish") add_number(value, out.finish);
  if (name == "versions") add_number(value, out.versions);
}

}  // namespace

GroupCounts parse_counts(std::string_view json, const std::string& where) {
  Counted read;
  scan_json(json, where, [&](const ScannedValue& value) { read_member(value, read); });
  GroupCounts& out = read.counts;
  const auto refuse = [&](size_t found, const std::string& what, const std::string& expected) {
    throw Error(ErrorCode::kCorrupt, counted(found, what) + ", expected " + expected, where);
  };
  if (const auto& scalars = out.scalars) {
    const size_t names = scalars->names.size(), values = scalars->values.size();
    if (names != values) refuse(names, "scalar name", std::to_string(values));
  }
  if (const auto& codes = read.finish) {
    out.finish.emplace();
    const size_t wanted = out.finish->size();
    if (codes->size() < wanted) refuse(codes->size(), "finish count", std::to_string(wanted));
    if (const int64_t least = std::ranges::min(*codes); least < 0) {
      throw Error(ErrorCode::kCorrupt,
                  "a count of finish is " + std::to_string(least) + ", expected 0 or more", where);
    }
    for (size_t i = 0; i < out.finish->size(); ++i) {
      (*out.finish)[i] = static_cast<uint64_t>((*codes)[i]);
    }
  }
  if (const auto& versions = read.versions) {
    if (versions->size() < 2) refuse(versions->size(), "version", "2");
    out.versions = {versions->at(0), versions->at(1)};
  }
  return out;
}

}  // namespace rlreplay::format
