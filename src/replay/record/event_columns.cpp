#include "src/replay/record/event_columns.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>

#include "src/base/error.h"
#include "src/events/name.h"

namespace rlreplay::replay {
namespace {

using engine::Event;
using engine::EventRecord;
using engine::StepEvents;

void append(std::vector<uint8_t>& out, const Digest& digest) {
  for (const uint64_t half : {digest.high, digest.low}) {
    for (int shift = 56; shift >= 0; shift -= 8) out.push_back(static_cast<uint8_t>(half >> shift));
  }
}

void append(EventColumns& to, const EventRecord& r) {
  const std::string line = tensor_line(r);
  to.tensors.insert(to.tensors.end(), line.begin(), line.end());
  to.rank.push_back(static_cast<uint32_t>(r.rank));
  to.rows.push_back(static_cast<uint64_t>(r.rows));
  append(to.digest, r.digest);
  const engine::Element& first = r.nonfinite.first;
  for (const uint64_t n : {static_cast<uint64_t>(r.nonfinite.count), first.sample,
                           static_cast<uint64_t>(first.row), static_cast<uint64_t>(first.column)}) {
    to.nonfinite.push_back(n);
  }
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  const engine::Stats stats = r.stats.value_or(engine::Stats{kNaN, kNaN, kNaN, kNaN});
  for (const double x : {stats.min, stats.max, stats.mean, stats.rms}) to.stats.push_back(x);
  to.row_set.push_back(r.row_set);
  for (const Digest& row : r.row_digests) append(to.row_digest, row);
  to.row_digest_offsets.push_back(to.row_digest.size() / 16);
  std::vector<std::byte>& values = to.values[type_index(r.dtype)];
  to.value_start.push_back(values.size() / size_of(r.dtype));
  to.value_count.push_back(r.values.size() / size_of(r.dtype));
  values.insert(values.end(), r.values.begin(), r.values.end());
}

/// Adds the parents of all events, by row; nothing where no event says any.
/// Errors: kInternal where some events say none, or a parent does not come before its event.
void add_parents(EventColumns& to, const StepEvents& events) {
  const auto says = [](const EventRecord& r) { return r.parents.has_value(); };
  if (std::ranges::none_of(events.events, says)) return;
  std::map<Event, uint64_t> rows;
  to.parent_offsets.push_back(0);
  for (const EventRecord& r : events.events) {
    check(says(r), "an event of a table with parents says none");
    for (const Event& parent : *r.parents) {
      const auto at = rows.find(parent);
      check(at != rows.end(), "the parent of an event does not come before it");
      to.parents.push_back(at->second);
    }
    to.parent_offsets.push_back(to.parents.size());
    rows.emplace(r.event, rows.size());
  }
}

}  // namespace

size_t type_index(DType dtype) {
  return static_cast<size_t>(std::ranges::find(kValueTypes, dtype) - std::begin(kValueTypes));
}

std::string tensor_line(const engine::EventRecord& r) {
  std::string out = to_string(r.event);
  out.append(" ").append(rlreplay::to_string(r.dtype)).append(" ");
  for (size_t i = 0; i < r.dims.size(); ++i) {
    out.append(i == 0 ? "" : ",").append(std::to_string(r.dims[i]));
  }
  return out + (r.dims.empty() ? "-\n" : "\n");
}

EventColumns event_columns(const StepEvents& events) {
  EventColumns out;
  for (const engine::RowSet& set : events.row_sets) {
    for (const engine::RowRun& run : set) {
      out.run_sample.push_back(run.sample);
      out.run_position.push_back(static_cast<uint64_t>(run.position));
      out.run_count.push_back(static_cast<uint64_t>(run.count));
    }
    out.row_set_offsets.push_back(out.run_sample.size());
  }
  for (const EventRecord& r : events.events) append(out, r);
  add_parents(out, events);
  return out;
}

}  // namespace rlreplay::replay
