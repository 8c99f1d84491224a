#include "src/replay/exchange/import_policy_loss.h"

#include <cstring>

#include "format/foreign/numbers.h"

namespace rlreplay::replay {
namespace {

using foreign::Kind;
using foreign::Numbers;
using foreign::Tree;
using foreign::Value;
using format::TokenFloats;
using format::TrainData;

std::string key_of(size_t total, std::span<const float> old) {
  std::string out = std::to_string(total) + "/";
  out.append(reinterpret_cast<const char*>(old.data()), old.size_bytes());
  return out;
}

/// The floats of a member; none where it is absent or holds something else.
std::vector<float> floats(const Tree& tree, Value dict, const char* key) {
  const Value* value = tree.find(dict, key);
  const auto numbers = value == nullptr ? std::nullopt : Numbers::of(tree, *value);
  std::vector<float> out;
  for (size_t i = 0; numbers && i < numbers->size(); ++i) {
    out.push_back(static_cast<float>(numbers->real(i)));
  }
  return out;
}

size_t length(const Tree& tree, Value dict, const char* key, const std::string& path) {
  const Value* value = tree.find(dict, key);
  if (value != nullptr && value->kind == Kind::kInt && value->integer >= 0) {
    return static_cast<size_t>(value->integer);
  }
  throw Error(ErrorCode::kCorrupt, std::string(key) + " is missing or no length", path);
}

/// The next `count` of a row of all samples' tokens; none where that is shorter.
std::vector<float> next(const std::vector<float>& all, size_t begin, size_t count) {
  if (begin + count > all.size()) return {};
  const auto at = all.begin() + static_cast<ptrdiff_t>(begin);
  return {at, at + static_cast<ptrdiff_t>(count)};
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

/// Errors: kCorrupt where the file does not say its rank or its call.
void check_policy_loss(const foreign::TorchFile& file) {
  for (const char* key : {"rank", "call"}) {
    if (file.tree().integer(file.root(), key)) continue;
    throw Error(ErrorCode::kCorrupt, std::string(key) + " is missing or not an integer",
                file.path());
  }
}

}  // namespace

void PolicyLossRows::add(const foreign::TorchFile& file, const std::string& name) {
  check_policy_loss(file);
  any_ = true;
  const Tree& tree = file.tree();
  const Value* samples = tree.find(file.root(), "samples");
  if (samples == nullptr || samples->kind != Kind::kList) return;
  const std::vector<float> kl = floats(tree, file.root(), "ppo_kl");
  const std::vector<float> loss = floats(tree, file.root(), "pg_loss");
  size_t begin = 0;
  for (size_t i = 0; i < tree.sequence(*samples).size(); ++i) {
    const Value sample = tree.sequence(*samples)[i];
    const std::string where = file.path() + ": sample " + std::to_string(i);
    const std::vector<float> old = floats(tree, sample, "old_log_probs");
    Row row{floats(tree, sample, "train_log_probs"), {}, {}, name};
    if (row.current.size() != old.size()) {
      throw Error(ErrorCode::kCorrupt,
                  "train_log_probs has " + std::to_string(row.current.size()) +
                      " entries, old_log_probs " + std::to_string(old.size()),
                  where);
    }
    row.policy_kl = next(kl, begin, old.size());
    row.policy_loss = next(loss, begin, old.size());
    begin += old.size();
    const size_t total = length(tree, sample, "total_length", where);
    if (length(tree, sample, "response_length", where) != old.size()) {
      ++slices_[name];
      continue;
    }
    rows_[key_of(total, old)].push_back(std::move(row));
  }
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

size_t PolicyLossRows::complete(TrainData& step) {
  if (!any_ || !step.prompt_length) return 0;
  size_t without = 0;
  for (size_t s = 0; s < step.size(); ++s) {
    const auto at = fitting(step, s);
    if (at == rows_.end()) {
      const uint64_t tokens = step.offsets[s + 1] - step.offsets[s];
      without += tokens > (*step.prompt_length)[s] ? 1 : 0;
      continue;
    }
    const Row row = std::move(at->second.front());
    at->second.pop_front();
    if (at->second.empty()) rows_.erase(at);
    put(step.log_probs, step, s, row.current);
    put(step.policy_kl, step, s, row.policy_kl);
    put(step.policy_loss, step, s, row.policy_loss);
  }
  drop_full_presence(step.log_probs);
  drop_full_presence(step.policy_kl);
  drop_full_presence(step.policy_loss);
  return without;
}

std::map<std::string, size_t> PolicyLossRows::left() const {
  std::map<std::string, size_t> out = slices_;
  for (const auto& [key, rows] : rows_) {
    for (const Row& row : rows) ++out[row.file];
  }
  return out;
}

}  // namespace rlreplay::replay
