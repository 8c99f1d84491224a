#include "src/events/row_history.h"

#include <algorithm>
#include <numeric>

#include "src/base/error.h"

namespace rlreplay::engine {

int RowHistory::extend(int before, const RowCoordinates& coordinates, int64_t count) {
  const auto is = [&](const Call& call) {
    if (call.before != before || static_cast<int64_t>(call.rows.size()) != count) return false;
    for (int64_t i = 0; i < count; ++i) {
      const Row& row = call.rows[static_cast<size_t>(i)];
      if (row.sample != coordinates.sample[i] || row.position != coordinates.position[i]) {
        return false;
      }
    }
    return true;
  };
  // The call is one of the last that were made, if it was made at all.
  const auto known = std::find_if(calls_.rbegin(), calls_.rend(), is);
  if (known != calls_.rend()) return static_cast<int>(calls_.rend() - known) - 1;
  Call call{before, {}};
  for (int64_t i = 0; i < count; ++i) {
    call.rows.push_back({coordinates.sample[i], coordinates.position[i]});
  }
  calls_.push_back(std::move(call));
  return static_cast<int>(calls_.size()) - 1;
}

/// The chain is walked from its last call to its first, and read the other way: `order` counts rows
/// as they came.
RowHistory::Sorted RowHistory::sorted(int history) const {
  std::vector<const Call*> chain;
  for (int i = history; i != kNone; i = chain.back()->before) {
    chain.push_back(&calls_[static_cast<size_t>(i)]);
  }
  std::vector<Row> rows;
  for (auto it = chain.rbegin(); it != chain.rend(); ++it) {
    rows.insert(rows.end(), (*it)->rows.begin(), (*it)->rows.end());
  }
  Sorted out;
  out.order.resize(rows.size());
  std::iota(out.order.begin(), out.order.end(), int64_t{0});
  const auto row = [&](int64_t i) { return rows[static_cast<size_t>(i)]; };
  std::ranges::sort(out.order, {}, row);
  for (const int64_t i : out.order) {
    const Row next = row(i);
    RowRun* last = out.rows.empty() ? nullptr : &out.rows.back();
    const int64_t end = last == nullptr ? 0 : last->position + last->count;
    if (last != nullptr && last->sample == next.sample && end == next.position) {
      last->count += 1;
    } else {
      check(last == nullptr || last->sample != next.sample || next.position > end,
            "an event emitted a row twice");
      out.rows.push_back({next.sample, next.position, 1});
    }
  }
  return out;
}

}  // namespace rlreplay::engine
