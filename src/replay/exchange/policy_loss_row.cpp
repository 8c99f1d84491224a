#include "src/replay/exchange/policy_loss_row.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include "format/foreign/numbers.h"
#include "format/foreign/tree_difference.h"
#include "src/base/error.h"
#include "src/base/number_text.h"
#include "src/base/same_value.h"
#include "src/base/words.h"

namespace rlreplay::replay {
namespace {

using foreign::Kind;
using foreign::Numbers;
using foreign::TorchFile;
using foreign::Tree;
using foreign::Value;

/// The floats of a member; none where it is absent or holds something else. Errors: kCorrupt for a
/// number that binary32 does not hold.
std::vector<float> floats(const Tree& tree, Value dict, const char* key, const std::string& where) {
  const Value* value = tree.find(dict, key);
  const auto numbers = value == nullptr ? std::nullopt : Numbers::of(tree, *value);
  std::vector<float> out;
  for (size_t i = 0; numbers && i < numbers->size(); ++i) {
    const double number = numbers->real(i);
    out.push_back(static_cast<float>(number));
    if (std::isfinite(number) && !std::isfinite(out.back())) {
      throw Error(ErrorCode::kCorrupt,
                  "entry " + std::to_string(i) + " of " + key + ", " + shortest(number) +
                      ", is too large for binary32, the type of the trainer's losses",
                  where);
    }
  }
  return out;
}

bool says(const Tree& tree, Value dict, const char* key) {
  const Value* value = tree.find(dict, key);
  return value != nullptr && value->kind != Kind::kNone;
}

size_t length(const Tree& tree, Value dict, const char* key, const std::string& where) {
  const Value* value = tree.find(dict, key);
  if (value != nullptr && value->kind == Kind::kInt && value->integer >= 0) {
    return static_cast<size_t>(value->integer);
  }
  throw Error(ErrorCode::kCorrupt, unlike_text(tree, key, value, "no length"), where);
}

[[noreturn]] void refuse_length(const char* key, size_t found, const std::string& expected,
                                const std::string& where) {
  throw Error(ErrorCode::kCorrupt,
              std::string(key) + " has " + std::to_string(found) + " entries, " + expected, where);
}

/// Sees that a file says which rank wrote it, at which call. Errors: kCorrupt.
void check_policy_loss(const TorchFile& file) {
  for (const char* key : {"rank", "call"}) {
    if (file.tree().integer(file.root(), key)) continue;
    throw Error(ErrorCode::kCorrupt,
                unlike_text(file.tree(), key, file.tree().find(file.root(), key), "not an integer"),
                file.path());
  }
}

/// Sees that all columns of a row are as long as its old log-probabilities; the sampler's may be of
/// the whole response where the row is a slice. Errors: kCorrupt.
void check_lengths(const Tree& tree, Value sample, const PolicyLossRow& row,
                   const std::string& where) {
  const auto refuse = [&](const char* key, size_t found) {
    refuse_length(key, found, "old_log_probs " + std::to_string(row.old.size()), where);
  };
  if (row.current.size() != row.old.size()) refuse("train_log_probs", row.current.size());
  for (const char* key :
       {"advantages", "local_loss_mask", "rollout_log_probs", "train_rollout_abs_diff"}) {
    if (!says(tree, sample, key)) continue;
    const size_t found = floats(tree, sample, key, where).size();
    // The sampler's may be whole where the others are slices.
    const bool whole = std::string_view(key) == "rollout_log_probs" && found == row.response;
    if (found != row.old.size() && !whole) refuse(key, found);
  }
}

PolicyLossRow read_row(const Tree& tree, Value sample, const std::string& where) {
  PolicyLossRow row;
  row.old = floats(tree, sample, "old_log_probs", where);
  row.current = floats(tree, sample, "train_log_probs", where);
  row.total = length(tree, sample, "total_length", where);
  row.response = length(tree, sample, "response_length", where);
  if (row.old.size() > row.response || row.response > row.total) {
    const bool more = row.old.size() > row.response;
    throw Error(ErrorCode::kCorrupt,
                more ? "old_log_probs has " + std::to_string(row.old.size()) +
                           " entries, response_length is " + std::to_string(row.response)
                     : "response_length is " + std::to_string(row.response) + ", total_length is " +
                           std::to_string(row.total),
                where);
  }
  check_lengths(tree, sample, row, where);
  row.advantages = floats(tree, sample, "advantages", where);
  row.mask = floats(tree, sample, "local_loss_mask", where);
  row.sampled = floats(tree, sample, "rollout_log_probs", where);
  row.index = tree.integer(sample, "index");
  row.group_index = tree.integer(sample, "group_index");
  row.index_in_group = tree.integer(sample, "in_group_id");
  return row;
}

/// Gives each row its part of the terms of all. Errors: kCorrupt where they are not as many.
void add_terms(const TorchFile& file, const char* key, std::vector<float> PolicyLossRow::*column,
               std::vector<PolicyLossRow>& rows) {
  const std::vector<float> all = floats(file.tree(), file.root(), key, file.path());
  size_t tokens = 0;
  for (const PolicyLossRow& row : rows) tokens += row.old.size();
  if (all.size() != tokens) {
    refuse_length(key, all.size(),
                  "its " + counted(rows.size(), "sample") + " together " + std::to_string(tokens),
                  file.path());
  }
  auto begin = all.begin();
  for (PolicyLossRow& row : rows) {
    const auto end = begin + static_cast<ptrdiff_t>(row.old.size());
    (row.*column).assign(begin, end);
    begin = end;
  }
}

}  // namespace

std::vector<PolicyLossRow> read_policy_loss(const TorchFile& file, const std::string& name) {
  check_policy_loss(file);
  const Tree& tree = file.tree();
  const foreign::Sequence& samples = tree.sequence(*tree.find(file.root(), "samples"));
  std::vector<PolicyLossRow> rows;
  for (size_t i = 0; i < samples.size(); ++i) {
    rows.push_back(read_row(tree, samples[i], file.path() + ": row " + std::to_string(i)));
    rows.back().file = name;
    rows.back().place = i;
    rows.back().rank = *tree.integer(file.root(), "rank");
  }
  add_terms(file, "ppo_kl", &PolicyLossRow::policy_kl, rows);
  add_terms(file, "pg_loss", &PolicyLossRow::policy_loss, rows);
  return rows;
}

std::optional<size_t> first_other(const std::vector<float>& a, const std::vector<float>& b) {
  const size_t both = std::min(a.size(), b.size());
  for (size_t t = 0; t < both; ++t) {
    if (!same_value(a[t], b[t])) return t;
  }
  return a.size() == b.size() ? std::nullopt : std::optional(both);
}

std::optional<std::string> odd_mask(const PolicyLossRow& row) {
  const auto odd = std::ranges::find_if(row.mask, [](float x) { return x != 0 && x != 1; });
  if (odd == row.mask.end()) return std::nullopt;
  return "position " + std::to_string(odd - row.mask.begin()) + ": " + shortest(*odd);
}

std::vector<std::string> untrue_flags(const TorchFile& file, std::span<const PolicyLossRow> rows) {
  const Tree& tree = file.tree();
  const Value* flags = tree.find(file.root(), "finite");
  std::vector<std::string> out;
  for (const PolicyLossColumn& column : kPolicyLossColumns) {
    const Value* flag =
        flags == nullptr || flags->kind != Kind::kDict ? nullptr : tree.find(*flags, column.name);
    const bool there = std::ranges::any_of(
        rows, [&](const PolicyLossRow& row) { return !(row.*column.column).empty(); });
    if (flag == nullptr || flag->kind != Kind::kBool || !there) continue;
    const bool finite = std::ranges::all_of(rows, [&](const PolicyLossRow& row) {
      return std::ranges::all_of(row.*column.column, [](float x) { return std::isfinite(x); });
    });
    if (finite == flag->boolean) continue;
    out.push_back("finite." + std::string(column.name) + ": " +
                  (finite ? "False, and all are" : "True, and not all are"));
  }
  return out;
}

}  // namespace rlreplay::replay
