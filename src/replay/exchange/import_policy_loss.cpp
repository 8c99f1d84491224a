#include "src/replay/exchange/import_policy_loss.h"

#include <utility>

#include "src/base/hash.h"

namespace rlreplay::replay {
namespace {

using format::TokenFloats;
using format::TrainData;

std::string key_of(size_t total, std::span<const float> old) {
  std::string out = std::to_string(total) + "/";
  out.append(reinterpret_cast<const char*>(old.data()), old.size_bytes());
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

}  // namespace

void PolicyLossRows::add(const foreign::TorchFile& file, const std::string& name) {
  any_ = true;
  for (PolicyLossRow& row : read_policy_loss(file)) {
    if (row.is_slice()) {
      ++slices_[name];
      continue;
    }
    const std::string key = key_of(row.total, row.old);
    rows_[key].push_back({std::move(row), name});
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
