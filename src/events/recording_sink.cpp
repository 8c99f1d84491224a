#include "src/events/recording_sink.h"

#include <algorithm>
#include <cstring>

#include "src/base/error.h"

namespace rlreplay::engine {
namespace {

constexpr int64_t kItemBytes = 1 << 17;  // enough of a row's work to be worth handing out

void append(std::vector<std::byte>& out, const RowsView& values) {
  const size_t bytes = static_cast<size_t>(values.cols) * size_of(values.dtype);
  for (int64_t row = 0; row < values.rows; ++row) {
    const std::byte* from = values.at(row, 0);
    out.insert(out.end(), from, from + bytes);
  }
}

/// of(row) of all rows, on all threads.
template <class Of>
std::vector<RowSummary> summarize(const RowsView& values, ThreadPool& pool, Of of) {
  std::vector<RowSummary> out(static_cast<size_t>(values.rows));
  const int64_t bytes = values.cols * static_cast<int64_t>(size_of(values.dtype));
  const int64_t each = std::max<int64_t>(1, kItemBytes / std::max<int64_t>(1, bytes));
  pool.run(kernels::ceil_div(values.rows, each), [&](int64_t item, int) {
    const int64_t end = std::min(values.rows, (item + 1) * each);
    for (int64_t row = item * each; row < end; ++row) out[static_cast<size_t>(row)] = of(row);
  });
  return out;
}

/// Calls use(row, element) for the rows of a set in order.
template <class Use>
void for_each_row(const RowSet& rows, Use use) {
  size_t i = 0;
  for (const RowRun& run : rows) {
    for (int64_t p = 0; p < run.count; ++p) use(i++, Element{run.sample, run.position + p, 0});
  }
}

std::vector<std::byte> permuted(const std::vector<std::byte>& values,
                                const std::vector<int64_t>& order) {
  const size_t bytes = order.empty() ? 0 : values.size() / order.size();
  std::vector<std::byte> out(values.size());
  if (out.empty()) return out;  // no column, or its values were not asked for
  for (size_t i = 0; i < order.size(); ++i) {
    std::memcpy(out.data() + i * bytes, values.data() + static_cast<size_t>(order[i]) * bytes,
                bytes);
  }
  return out;
}

template <class Map>
void forget(Map& events) {
  std::erase_if(events, [](const auto& item) {
    const Phase phase = item.first.phase;
    return phase == Phase::kForward || phase == Phase::kObjective || phase == Phase::kBackward;
  });
}

}  // namespace

RecordingSink::RecordingSink(const ModelConfig& config, const ParameterTable& parameters,
                             int64_t leaf, const RecordOptions& options, ThreadPool& pool)
    : config_(config), parameters_(parameters), leaf_(leaf), options_(options), pool_(pool) {}

bool RecordingSink::wants(const Event& event) const {
  const EventSpec* spec = find_event(event);
  check(spec != nullptr, "an event is not in the table");
  return spec->granularity <= options_.granularity;
}

RecordingSink::Rows& RecordingSink::state(const Event& event) {
  const auto known = rows_.find(event);
  if (known != rows_.end()) return known->second;
  Rows rows{digest_plan(event, config_, parameters_), find_event(event)->kind, {}, {}, {}};
  rows.history = RowHistory::kNone;
  return rows_.emplace(event, std::move(rows)).first->second;
}

void RecordingSink::rows(const Event& event, const EventView& values,
                         const RowCoordinates& coordinates) {
  Rows& to = state(event);
  const RowsView view = values.view();
  check(view.dtype == dtype_of(to.kind) && view.cols == to.plan.id.row_length(),
        "an event emitted rows of another type or width than the table says");
  to.history = history_.extend(to.history, coordinates, values.rows);
  const bool scalars = to.plan.dims.empty();
  if (!scalars || options_.stats) {
    const auto rows = summarize(view, pool_, [&](int64_t row) {
      const uint64_t at[] = {coordinates.sample[row],
                             static_cast<uint64_t>(coordinates.position[row])};
      return summarize_row(to.plan, view, row, at, options_.stats);
    });
    to.summaries.insert(to.summaries.end(), rows.begin(), rows.end());
  }
  if (scalars || options_.values) append(to.values, view);
}

/// A tensor comes in one call with its rows in order, so it is finished here; rows of tokens come
/// in many calls, and wait for finish().
void RecordingSink::whole(const Event& event, const EventView& values) {
  const EventSpec* spec = find_event(event);
  const DigestPlan plan = digest_plan(event, config_, parameters_);
  const RowsView view = values.view();
  check(spec != nullptr && view.dtype == dtype_of(spec->kind),
        "an event emitted a tensor of another type than the table says");
  const auto rows = summarize(view, pool_, [&](int64_t row) {
    const uint64_t at[] = {static_cast<uint64_t>(row)};
    return summarize_row(plan, view, row, at, options_.stats);
  });
  Summing summing;
  for (size_t i = 0; i < rows.size(); ++i) {
    summing.add(rows[i], {0, static_cast<int64_t>(i), 0});
  }
  const TensorSummary sum = summing.result(options_.stats);
  EventRecord record{event,     0,         view.dtype, plan.dims,
                     view.rows, view.cols, sum.digest, sum.nonfinite,
                     sum.stats, -1,        {},         {}};
  const bool scalar = !is_parameter(spec->kind);
  if (!scalar && options_.row_digests(spec->kind)) {
    for (const RowSummary& row : rows) record.row_digests.push_back(row.digest);
  }
  if (scalar || options_.values) append(record.values, view);
  const bool first = whole_.emplace(event, std::move(record)).second;
  check(first, "an event emitted its value twice");
}

void RecordingSink::restart() {
  forget(rows_);
  forget(whole_);
}

TensorSummary RecordingSink::sum_rows(const Rows& rows, const Order& order) const {
  Summing summing;
  for_each_row(order.rows, [&](size_t i, const Element& at) {
    summing.add(rows.summaries[static_cast<size_t>(order.order[i])], at);
  });
  return summing.result(options_.stats);
}

/// Blocks of per-token scalars: those of a sample's positions [j leaf, (j + 1) leaf) that have one.
/// `rows` must be in order.
TensorSummary RecordingSink::sum_leaves(const Rows& rows, const Order& order) const {
  const size_t size = size_of(rows.plan.id.dtype());
  TensorSummary out;
  size_t first = 0;
  for (const RowRun& run : order.rows) {
    for (int64_t p = run.position; p < run.position + run.count;) {
      const int64_t end = std::min(run.position + run.count, (p / leaf_ + 1) * leaf_);
      const RowsView leaf{rows.plan.id.dtype(), rows.values.data() + first * size, 1, end - p,
                          end - p};
      const uint64_t at[] = {run.sample, static_cast<uint64_t>(p / leaf_)};
      const RowSummary block = summarize_row(rows.plan, leaf, 0, at, false);
      out.digest += block.digest;
      if (block.nonfinite > 0 && out.nonfinite.count == 0) {
        out.nonfinite.first = {run.sample, p + block.first_nonfinite, 0};
      }
      out.nonfinite.count += block.nonfinite;
      first += static_cast<size_t>(end - p);
      p = end;
    }
  }
  return out;
}

/// Values are put in order before anything is made of them: leaves of scalars are runs of ordered
/// values, while summaries of rows stay as they came and are read through `order`.
EventRecord RecordingSink::finish_rows(const Event& event, Rows& rows, const Order& order) const {
  const bool scalars = rows.plan.dims.empty();
  rows.values = permuted(rows.values, order.order);
  TensorSummary sum;
  if (!scalars || options_.stats) sum = sum_rows(rows, order);
  if (scalars) {
    const TensorSummary leaves = sum_leaves(rows, order);
    sum.digest = leaves.digest;
    sum.nonfinite = leaves.nonfinite;
  }
  EventRecord out{event,
                  0,
                  rows.plan.id.dtype(),
                  rows.plan.dims,
                  static_cast<int64_t>(order.order.size()),
                  rows.plan.id.row_length(),
                  sum.digest,
                  sum.nonfinite,
                  sum.stats,
                  order.row_set,
                  {},
                  {}};
  const bool by_row = options_.row_digests(rows.kind);
  if (!scalars && by_row) {
    for (const int64_t i : order.order) {
      out.row_digests.push_back(rows.summaries[static_cast<size_t>(i)].digest);
    }
  }
  const bool numbers = scalars && (by_row || rows.kind == Kind::kTokens);
  if (options_.values || numbers) out.values = std::move(rows.values);
  return out;
}

const RecordingSink::Order& RecordingSink::order(int history, std::map<int, Order>& known,
                                                 StepEvents& out) const {
  const auto found = known.find(history);
  if (found != known.end()) return found->second;
  RowHistory::Sorted sorted = history_.sorted(history);
  const auto same = std::ranges::find(out.row_sets, sorted.rows);
  Order order{std::move(sorted.order), std::move(sorted.rows),
              static_cast<int>(same - out.row_sets.begin())};
  if (same == out.row_sets.end()) out.row_sets.push_back(order.rows);
  return known.emplace(history, std::move(order)).first->second;
}

StepEvents RecordingSink::finish(int64_t rollout_id, int64_t step_id) {
  StepEvents out{rollout_id, step_id, {}, {}};
  std::vector<Event> events;
  for (const auto& [event, rows] : rows_) events.push_back(event);
  for (const auto& [event, record] : whole_) events.push_back(event);
  std::ranges::sort(events, {}, event_order);
  std::map<int, Order> orders;
  for (const Event& event : events) {
    if (const auto rows = rows_.find(event); rows != rows_.end()) {
      const Order& in_order = order(rows->second.history, orders, out);
      out.events.push_back(finish_rows(event, rows->second, in_order));
    } else {
      out.events.push_back(std::move(whole_.at(event)));
    }
  }
  rows_.clear();
  whole_.clear();
  history_ = {};
  return out;
}

}  // namespace rlreplay::engine
