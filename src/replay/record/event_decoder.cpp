#include "src/replay/record/event_decoder.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <string>
#include <utility>

#include "src/base/ascii.h"
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

constexpr size_t kMostDims = 8;
constexpr size_t kMostShown = 120;  // of a line, in an error

Digest digest_at(const std::vector<uint8_t>& bytes, size_t index) {
  uint64_t halves[2] = {};
  for (size_t i = 0; i < 16; ++i) halves[i / 8] = halves[i / 8] << 8 | bytes[16 * index + i];
  return {halves[0], halves[1]};
}

/// Turns the arrays into records, and refuses those that contradict one another.
class Decoder {
 public:
  /// `phase`: of events that are not ours.
  Decoder(const GroupReader& reader, const EventColumns& columns, engine::Phase phase)
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
    check_names(out);
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

  void decode_rows(StepEvents& out) {
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
      set_rows_.push_back(row_count(rows));
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
    check_nonfinite(i, out, events);
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
    if (per_token) want = set_rows_[static_cast<size_t>(r.row_set)];
    if (r.rows == want) return;
    refuse("rows", event_text(i, r) + " has " + counted(r.rows, "row") + ", expected " +
                       std::to_string(want));
  }

  /// Elements that are no finite numbers are some of the tensor's, and the first is one of its.
  void check_nonfinite(size_t i, const EventRecord& r, const StepEvents& events) const {
    const uint64_t* n = &c_.nonfinite[4 * i];
    const uint64_t count = n[0], sample = n[1], row = n[2], column = n[3];
    const auto refuse_place = [&](const std::string& expected) {
      refuse("nonfinite", event_text(i, r) + " has " + counted(count, "element") +
                              " not finite, the first at sample " + std::to_string(sample) +
                              ", row " + std::to_string(row) + ", column " +
                              std::to_string(column) + ", expected " + expected);
    };
    if (count == 0) {
      if (sample != 0 || row != 0 || column != 0) refuse_place("zeros where there are none");
      return;
    }
    const auto rows = static_cast<uint64_t>(r.rows), cols = static_cast<uint64_t>(r.cols);
    uint64_t most = 0;
    if (!__builtin_mul_overflow(rows, cols, &most) && count > most) {
      refuse_place("at most " + std::to_string(most));
    }
    bool there = row < rows;
    if (r.row_set >= 0) {
      there = has_row(events.row_sets[static_cast<size_t>(r.row_set)], sample, row);
    }
    if (!there || column >= cols) refuse_place("a place in the tensor");
  }

  static bool has_row(const engine::RowSet& rows, uint64_t sample, uint64_t position) {
    const auto begin_of = [](const engine::RowRun& run) {
      return std::pair(run.sample, static_cast<uint64_t>(run.position));
    };
    const auto after = std::ranges::upper_bound(rows, std::pair(sample, position), {}, begin_of);
    if (after == rows.begin()) return false;
    const engine::RowRun& run = *std::prev(after);
    return run.sample == sample && position < static_cast<uint64_t>(run.position + run.count);
  }

  /// A name stands once among the tensors of a rank.
  void check_names(const StepEvents& events) const {
    std::set<std::pair<int, std::string>> seen;
    for (size_t i = 0; i < events.events.size(); ++i) {
      const EventRecord& r = events.events[i];
      if (seen.emplace(r.rank, to_string(r.event)).second) continue;
      refuse("tensors", event_text(i, r) + " has the name of another of rank " +
                            std::to_string(static_cast<uint32_t>(r.rank)) +
                            ", expected each name once");
    }
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
  const EventColumns& c_;
  engine::Phase phase_;
  std::vector<int64_t> set_rows_;  // of each set: counted once, not for each of its events
};

}  // namespace

StepEvents decode_events(const GroupReader& reader, const EventColumns& columns,
                         engine::Phase phase, int64_t rollout_id, int64_t step_id) {
  return Decoder(reader, columns, phase).decode(rollout_id, step_id);
}

}  // namespace rlreplay::replay
