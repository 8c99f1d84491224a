#include "src/replay/record/event_store.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "format/group_io.h"
#include "format/group_name.h"
#include "src/base/ascii.h"
#include "src/base/error.h"
#include "src/base/printable.h"
#include "src/base/words.h"
#include "src/events/event_rows.h"
#include "src/events/name.h"

namespace rlreplay::replay {
namespace {

using engine::Event;
using engine::EventRecord;
using engine::StepEvents;
using format::GroupReader;
using format::GroupWriter;

constexpr size_t kMostDims = 8;
constexpr size_t kMostShown = 120;  // of a line, in an error
/// The types of values in the order in which their datasets are written.
constexpr DType kValueTypes[] = {DType::kF32,    DType::kF64,  DType::kI32, DType::kI64,
                                 DType::kBool,   DType::kI8,   DType::kI16, DType::kU8,
                                 DType::kU16,    DType::kU32,  DType::kU64, DType::kF8E4M3,
                                 DType::kF8E5M2, DType::kE8M0, DType::kF16, DType::kBF16};
static_assert(std::size(kValueTypes) == std::size(kAllDTypes));

std::string values_name(DType dtype) {
  return "events/values_" + std::string(rlreplay::to_string(dtype));
}

size_t type_index(DType dtype) {
  return static_cast<size_t>(std::ranges::find(kValueTypes, dtype) - std::begin(kValueTypes));
}

/// The arrays of SPEC.md's table.
struct Columns {
  std::vector<uint8_t> tensors, digest, row_digest;
  std::vector<uint32_t> rank;
  std::vector<int32_t> row_set;
  std::vector<uint64_t> rows, nonfinite, value_start, value_count;
  std::vector<uint64_t> row_set_offsets{0}, run_sample, run_position, run_count;
  std::vector<uint64_t> row_digest_offsets{0};
  std::vector<uint64_t> parent_offsets, parents;
  std::vector<double> stats;
  std::vector<std::byte> values[std::size(kValueTypes)];
};

void append(std::vector<uint8_t>& out, const Digest& digest) {
  for (const uint64_t half : {digest.high, digest.low}) {
    for (int shift = 56; shift >= 0; shift -= 8) out.push_back(static_cast<uint8_t>(half >> shift));
  }
}

Digest digest_at(const std::vector<uint8_t>& bytes, size_t index) {
  uint64_t halves[2] = {};
  for (size_t i = 0; i < 16; ++i) halves[i / 8] = halves[i / 8] << 8 | bytes[16 * index + i];
  return {halves[0], halves[1]};
}

std::string tensor_line(const EventRecord& r) {
  std::string out = to_string(r.event);
  out.append(" ").append(rlreplay::to_string(r.dtype)).append(" ");
  for (size_t i = 0; i < r.dims.size(); ++i) {
    out.append(i == 0 ? "" : ",").append(std::to_string(r.dims[i]));
  }
  return out + (r.dims.empty() ? "-\n" : "\n");
}

void append(Columns& to, const EventRecord& r) {
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
void add_parents(Columns& to, const StepEvents& events) {
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

std::shared_ptr<const Columns> columns_of(const StepEvents& events) {
  auto out = std::make_shared<Columns>();
  for (const engine::RowSet& set : events.row_sets) {
    for (const engine::RowRun& run : set) {
      out->run_sample.push_back(run.sample);
      out->run_position.push_back(static_cast<uint64_t>(run.position));
      out->run_count.push_back(static_cast<uint64_t>(run.count));
    }
    out->row_set_offsets.push_back(out->run_sample.size());
  }
  for (const EventRecord& r : events.events) append(*out, r);
  add_parents(*out, events);
  return out;
}

/// One name for each array, for both ways. `use(name, array, columns of the last axis)`.
template <class C, class Use>
void visit(C& c, Use use) {
  use("events/tensors", c.tensors, 1);
  use("events/rank", c.rank, 1);
  use("events/rows", c.rows, 1);
  use("events/digest", c.digest, 16);
  use("events/nonfinite", c.nonfinite, 4);
  use("events/row_set", c.row_set, 1);
  use("events/row_set_offsets", c.row_set_offsets, 1);
  use("events/run_sample", c.run_sample, 1);
  use("events/run_position", c.run_position, 1);
  use("events/run_count", c.run_count, 1);
  use("events/row_digest_offsets", c.row_digest_offsets, 1);
  use("events/row_digest", c.row_digest, 16);
  use("events/value_start", c.value_start, 1);
  use("events/value_count", c.value_count, 1);
}

bool is_needed(std::string_view name) {
  return name == "events/tensors" || name == "events/rank" || name == "events/rows" ||
         name == "events/digest";
}

/// Turns the arrays into records, and refuses those that contradict one another.
class Decoder {
 public:
  /// `phase`: of events that are not ours.
  Decoder(const GroupReader& reader, const Columns& columns, engine::Phase phase)
      : reader_(reader), c_(columns), phase_(phase) {}

  StepEvents decode(int64_t rollout_id, int64_t step_id) {
    StepEvents out{rollout_id, step_id, {}, {}};
    check_lengths();
    decode_rows(out);
    std::string_view lines(reinterpret_cast<const char*>(c_.tensors.data()), c_.tensors.size());
    for (size_t i = 0; i < c_.rank.size(); ++i) {
      const size_t end = lines.find('\n');
      if (end == lines.npos) refuse_lines(i);
      out.events.push_back(record(i, lines.substr(0, end), out));
      lines.remove_prefix(end + 1);
    }
    if (!lines.empty()) refuse_lines(c_.rank.size() + std::ranges::count(lines, '\n'));
    take_parents(out);
    return out;
  }

 private:
  [[noreturn]] void refuse(const char* name, const std::string& message) const {
    reader_.refuse(std::string("events/") + name, message);
  }
  [[noreturn]] void refuse_lines(size_t found) const {
    refuse("tensors", counted(found, "line") + ", expected one for each of the " +
                          counted(c_.rank.size(), "event") + " of events/rank");
  }
  static std::string event_text(size_t i, const EventRecord& r) {
    return "event " + std::to_string(i) + " (" + printable(to_string(r.event)) + ")";
  }

  void check_lengths() const {
    const size_t e = c_.rank.size(), runs = c_.run_sample.size();
    const auto expect_size = [&](const char* name, size_t size, size_t expected) {
      reader_.expect_size(size, expected, std::string("events/") + name);
    };
    expect_size("rows", c_.rows.size(), e);
    expect_size("digest", c_.digest.size(), 16 * e);
    expect_size("nonfinite", c_.nonfinite.size(), 4 * e);
    expect_size("row_set", c_.row_set.size(), e);
    expect_size("value_start", c_.value_start.size(), e);
    expect_size("value_count", c_.value_count.size(), e);
    if (!c_.stats.empty()) expect_size("stats", c_.stats.size(), 4 * e);
    expect_size("run_position", c_.run_position.size(), runs);
    expect_size("run_count", c_.run_count.size(), runs);
    expect_size("row_digest", c_.row_digest.size() % 16, 0);
    const size_t sets = c_.row_set_offsets.size();
    check_offsets("row_set_offsets", c_.row_set_offsets, sets == 0 ? 0 : sets - 1, runs);
    check_offsets("row_digest_offsets", c_.row_digest_offsets, e, c_.row_digest.size() / 16);
    if (!c_.parent_offsets.empty() || !c_.parents.empty()) {
      check_offsets("parent_offsets", c_.parent_offsets, e, c_.parents.size());
    }
  }

  void check_offsets(const char* name, const std::vector<uint64_t>& offsets, size_t size,
                     size_t total) const {
    if (format::sound_offsets(offsets, size, total)) return;
    refuse(name, counted(offsets.size(), "offset") + ", expected " + std::to_string(size + 1) +
                     " that ascend from 0 to " + std::to_string(total));
  }

  void decode_rows(StepEvents& out) const {
    constexpr uint64_t kMost = uint64_t{1} << 31;  // positions are 32 bits
    for (size_t set = 0; set + 1 < c_.row_set_offsets.size(); ++set) {
      engine::RowSet rows;
      for (size_t i = c_.row_set_offsets[set]; i < c_.row_set_offsets[set + 1]; ++i) {
        if (c_.run_position[i] >= kMost || c_.run_count[i] - 1 >= kMost) {
          refuse("run_count", "run " + std::to_string(i) + " has " +
                                  counted(c_.run_count[i], "token") + " from " +
                                  std::to_string(c_.run_position[i]) +
                                  " on, expected 1 to 2^31 from below 2^31");
        }
        const engine::RowRun run{c_.run_sample[i], static_cast<int64_t>(c_.run_position[i]),
                                 static_cast<int64_t>(c_.run_count[i])};
        const bool ascends = rows.empty() || rows.back().sample < run.sample ||
                             (rows.back().sample == run.sample &&
                              rows.back().position + rows.back().count < run.position);
        if (!ascends) {
          refuse("run_position", "run " + std::to_string(i) + " of set " + std::to_string(set) +
                                     " does not begin behind the one before, expected runs that "
                                     "ascend");
        }
        rows.push_back(run);
      }
      out.row_sets.push_back(std::move(rows));
    }
  }

  /// `NAME DTYPE DIMS`.
  EventRecord described(std::string_view line) const {
    EventRecord out;
    const size_t dims = line.rfind(' '), dtype = line.rfind(' ', dims - 1);
    const auto refuse_line = [&](const std::string& expected) {
      refuse("tensors",
             "the line `" + printable(line.substr(0, kMostShown)) + "`, expected " + expected);
    };
    if (dims == line.npos || dtype >= dims) refuse_line("three words: NAME DTYPE DIMS");
    const std::string_view name = line.substr(0, dtype);
    if (!engine::is_event_name(name)) refuse_line("a name without a space, not empty nor too long");
    const auto type = dtype_from_string(line.substr(dtype + 1, dims - dtype - 1));
    if (!type) refuse_line("a dtype that is known");
    out.dtype = *type;
    std::string_view rest = line.substr(dims + 1);
    while (rest != "-" && !rest.empty()) {
      const size_t comma = std::min(rest.find(','), rest.size());
      const std::string number(rest.substr(0, comma));
      const bool digits = is_digits(number) && number.size() < 16;
      if (!digits || number.front() == '0' || out.dims.size() == kMostDims) {
        refuse_line("at most 8 dimensions, numbers above 0");
      }
      out.dims.push_back(std::stoll(number));
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
    out.event = engine::recorded_event(name, out.dtype, out.dims.size(), phase_);
    return out;
  }

  /// Elements of dimensions from `first` to before `last`.
  int64_t product(const EventRecord& r, size_t first, size_t last) const {
    int64_t out = 1;
    bool fits = true;
    for (size_t d = first; d < last; ++d) {
      fits = fits && !__builtin_mul_overflow(out, r.dims[d], &out);
    }
    if (!fits) refuse("tensors", printable(tensor_line(r)) + " has 2^63 elements or more");
    return out;
  }

  EventRecord record(size_t i, std::string_view line, const StepEvents& events) const {
    EventRecord out = described(line);
    out.rank = static_cast<int>(c_.rank[i]);
    out.rows = static_cast<int64_t>(c_.rows[i]);
    out.row_set = c_.row_set[i];
    const size_t last = out.dims.empty() ? 0 : out.dims.size() - 1;
    out.cols =
        out.row_set >= 0 ? product(out, 0, out.dims.size()) : product(out, last, out.dims.size());
    out.digest = digest_at(c_.digest, i);
    const uint64_t* bad = &c_.nonfinite[4 * i];
    out.nonfinite = {static_cast<int64_t>(bad[0]),
                     {bad[1], static_cast<int64_t>(bad[2]), static_cast<int64_t>(bad[3])}};
    if (!c_.stats.empty() && !std::isnan(c_.stats[4 * i])) {
      const double* s = &c_.stats[4 * i];
      out.stats = engine::Stats{s[0], s[1], s[2], s[3]};
    }
    check_rows(i, out, events);
    for (size_t d = c_.row_digest_offsets[i]; d < c_.row_digest_offsets[i + 1]; ++d) {
      out.row_digests.push_back(digest_at(c_.row_digest, d));
    }
    if (!out.row_digests.empty() && out.row_digests.size() != c_.rows[i]) {
      refuse("row_digest_offsets",
             event_text(i, out) + " has " + counted(out.row_digests.size(), "row digest") +
                 ", expected none or one for each of " + counted(c_.rows[i], "row"));
    }
    take_values(i, out);
    return out;
  }

  void check_rows(size_t i, const EventRecord& r, const StepEvents& events) const {
    const auto sets = static_cast<int>(events.row_sets.size());
    const engine::EventSpec* spec = find_event(r.event);
    const bool per_token = spec == nullptr ? r.row_set >= 0 : is_per_token(spec->kind);
    if (r.row_set >= sets || r.row_set < -1 || (r.row_set >= 0) != per_token) {
      refuse("row_set", event_text(i, r) + " has the set " + std::to_string(r.row_set) +
                            ", expected " +
                            (per_token ? "one of " + std::to_string(sets) : "-1, for no set"));
    }
    int64_t want = r.dims.empty() ? 1 : product(r, 0, r.dims.size() - 1);
    if (per_token) want = row_count(events.row_sets[static_cast<size_t>(r.row_set)]);
    if (r.rows == want) return;
    refuse("rows", event_text(i, r) + " has " + counted(r.rows, "row") + ", expected " +
                       std::to_string(want));
  }

  void take_parents(StepEvents& out) const {
    if (c_.parent_offsets.empty()) return;
    for (size_t i = 0; i < out.events.size(); ++i) {
      std::vector<Event>& parents = out.events[i].parents.emplace();
      for (size_t p = c_.parent_offsets[i]; p < c_.parent_offsets[i + 1]; ++p) {
        if (c_.parents[p] >= i) {
          refuse("parents", event_text(i, out.events[i]) + " has the parent " +
                                std::to_string(c_.parents[p]) + ", expected one before it");
        }
        parents.push_back(out.events[c_.parents[p]].event);
      }
    }
  }

  void take_values(size_t i, EventRecord& r) const {
    const uint64_t start = c_.value_start[i], count = c_.value_count[i];
    if (count == 0) return;
    const auto& values = c_.values[type_index(r.dtype)];
    const size_t size = size_of(r.dtype), total = values.size() / size;
    const auto cols = static_cast<uint64_t>(r.cols);
    const bool whole =
        r.cols > 0 && count % cols == 0 && count / cols == static_cast<uint64_t>(r.rows);
    if (!whole || start > total || count > total - start) {
      refuse("value_count", event_text(i, r) + " has " + counted(count, "value") + " from " +
                                std::to_string(start) + " of " + std::to_string(total) +
                                ", expected " + counted(r.rows, "row") + " of " +
                                std::to_string(r.cols));
    }
    const auto* from = values.data() + start * size;
    r.values.assign(from, from + count * size);
  }

  const GroupReader& reader_;
  const Columns& c_;
  engine::Phase phase_;
};

/// Fills the columns that a unit lacks, where its table records less, with what says "none".
void fill_absent(Columns& c) {
  const size_t e = c.rank.size();
  if (c.nonfinite.empty()) c.nonfinite.resize(4 * e);
  if (c.row_set.empty()) c.row_set.assign(e, -1);
  if (c.row_digest_offsets.empty()) c.row_digest_offsets.resize(e + 1);
  for (auto* column : {&c.value_start, &c.value_count}) {
    if (column->empty()) column->resize(e);
  }
}

}  // namespace

std::vector<format::Dataset> event_datasets(const StepEvents& events, const std::string& group) {
  const std::shared_ptr<const Columns> columns = columns_of(events);
  GroupWriter writer(group, columns, {});
  visit(*columns, [&](const char* name, const auto& values, uint64_t width) {
    std::vector<uint64_t> shape{values.size() / width};
    if (width > 1) shape.push_back(width);
    using T = typename std::decay_t<decltype(values)>::value_type;
    writer.add(name, format::dtype_for<T>(), shape, std::as_bytes(std::span(values)));
  });
  const auto has_stats = [](const EventRecord& r) { return r.stats.has_value(); };
  if (std::ranges::any_of(events.events, has_stats)) {
    writer.add("events/stats", DType::kF64, {columns->stats.size() / 4, 4},
               std::as_bytes(std::span(columns->stats)));
  }
  if (!columns->parent_offsets.empty()) {
    writer.add("events/parent_offsets", DType::kU64, {columns->parent_offsets.size()},
               std::as_bytes(std::span(columns->parent_offsets)));
    writer.add("events/parents", DType::kU64, {columns->parents.size()},
               std::as_bytes(std::span(columns->parents)));
  }
  for (size_t i = 0; i < std::size(kValueTypes); ++i) {
    const auto& values = columns->values[i];
    if (values.empty()) continue;
    writer.add(values_name(kValueTypes[i]), kValueTypes[i],
               {values.size() / size_of(kValueTypes[i])}, values);
  }
  return writer.finish();
}

StepEvents read_events(const format::DumpReader& dump, const format::UnitReader& unit,
                       const std::string& group, int64_t rollout_id, int64_t step_id) {
  const GroupReader reader(dump, unit, group);
  Columns columns;
  visit(columns, [&](const char* name, auto& values, uint64_t) {
    const format::StoredDataset* dataset = reader.find(name);
    values.clear();
    if (dataset == nullptr && !is_needed(name)) return;
    dataset = &reader.needed(name);
    values = reader.read<typename std::decay_t<decltype(values)>::value_type>(*dataset);
  });
  if (const auto* stats = reader.find("events/stats")) columns.stats = reader.read<double>(*stats);
  for (size_t i = 0; i < std::size(kValueTypes); ++i) {
    const format::StoredDataset* dataset = reader.find(values_name(kValueTypes[i]));
    if (dataset == nullptr) continue;
    reader.check_form(*dataset, kValueTypes[i]);
    columns.values[i] = reader.read_bytes<std::vector<std::byte>>(*dataset);
  }
  for (auto [name, values] : {std::pair("events/parent_offsets", &columns.parent_offsets),
                              std::pair("events/parents", &columns.parents)}) {
    if (const auto* dataset = reader.find(name)) *values = reader.read<uint64_t>(*dataset);
  }
  if (columns.row_set_offsets.empty()) columns.row_set_offsets = {0};
  fill_absent(columns);
  const bool rollout = format::parse_rollout(group).has_value();
  return Decoder(reader, columns, rollout ? engine::Phase::kRollout : engine::Phase::kForward)
      .decode(rollout_id, step_id);
}

}  // namespace rlreplay::replay
