#include "src/engine/growing_rotary.h"

#include <algorithm>

#include "kernels/order.h"

namespace rlreplay::engine {
namespace {

constexpr int64_t kTableRows = 256;  // a table is made for so many more, so that few are made

}  // namespace

int64_t positions_of(const ModelConfig& model, std::span<const Sample> samples) {
  int64_t out = 1;
  for (const Sample& s : samples) out = std::max(out, std::ssize(s.tokens));
  return std::min(out, model.max_positions);
}

int64_t positions_of(const ModelConfig& model, std::span<const Request> requests,
                     int64_t max_response) {
  int64_t prompt = 1;
  for (const Request& r : requests) prompt = std::max(prompt, std::ssize(r.prompt));
  return std::min(prompt + max_response, model.max_positions);
}

RotaryView GrowingRotary::view_for(int64_t positions, ThreadPool& pool) {
  if (!table_ || table_->cos().rows < positions) {
    const int64_t rows = kernels::ceil_div(positions, kTableRows) * kTableRows;
    table_.emplace(make_rotary_table(config_, rope_, rows, pool));
  }
  return view(*table_);
}

}  // namespace rlreplay::engine
