#include "format/slice_join.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "format/group_io.h"
#include "format/logical_tensor.h"
#include "format/rule.h"
#include "src/base/same_value.h"

namespace rlreplay::format {
namespace {

/// Ranks that hold slices of samples become one that holds whole samples: the first of them; the
/// others keep their scalars. Rows, lengths and gaps are settled before memory is taken for what
/// lengths claim.
class SliceJoin {
 public:
  SliceJoin(std::vector<TrainRank>& ranks, const std::string& group, HeldBytes& held)
      : group_(group), held_(held) {
    for (TrainRank& rank : ranks) {
      if (rank.data.slices) parts_.push_back(&rank);
    }
  }

  void run() {
    if (parts_.empty()) return;
    const uint64_t before = held_.bytes();
    find_samples();
    for_each_train_column([&](std::string_view name, auto member, Axis axis) {
      if (!none_has(member)) join(name, member, axis);
    });
    TrainRank& first = *parts_.front();
    first.held += held_.bytes() - before;
    out_.scalars = std::move(first.data.scalars);
    first.data = std::move(out_);
    for (TrainRank* part : std::span(parts_).subspan(1)) {
      TrainData alone;
      alone.scalars = std::move(part->data.scalars);
      part->data = std::move(alone);
    }
  }

 private:
  [[noreturn]] void fail(const TrainRank& rank, std::string_view name,
                         const std::string& message) const {
    throw FormatError(Rule::kMeaning, message, rank.unit->path, group_ + "/" + std::string(name));
  }
  std::string sample_text(size_t row) const {
    return "sample " + std::to_string(out_.sample_id[row]);
  }

  void find_samples() {
    std::map<uint64_t, size_t> rows;
    for (const TrainRank* part : parts_) {
      std::vector<size_t>& of = rows_.emplace_back();
      for (size_t s = 0; s < part->data.size(); ++s) {
        const uint64_t id = part->data.sample_id[s], length = part->data.slices->lengths[s];
        const auto [at, fresh] = rows.emplace(id, rows.size());
        of.push_back(at->second);
        if (fresh) {
          uint64_t total = 0;
          if (__builtin_add_overflow(out_.offsets.back(), length, &total)) {
            fail(*part, "lengths", "samples are longer than numbers are");
          }
          out_.sample_id.push_back(id);
          out_.offsets.push_back(total);
          first_.push_back(part);
        } else if (length != length_of(at->second)) {
          fail(*part, "lengths",
               sample_text(at->second) + " has " + std::to_string(length) + " tokens here, and " +
                   std::to_string(length_of(at->second)) + " in " + first_[at->second]->unit->path);
        }
      }
    }
    uint64_t stored = 0;
    for (const TrainRank* part : parts_) stored += part->data.offsets.back();
    if (stored < out_.offsets.back()) fail_gap();  // before memory is taken for what is claimed
  }

  uint64_t length_of(size_t row) const { return out_.offsets[row + 1] - out_.offsets[row]; }

  /// Names the first token that is in no slice.
  void fail_gap() const {
    std::vector<std::vector<std::pair<uint64_t, uint64_t>>> held(out_.size());
    for (size_t p = 0; p < parts_.size(); ++p) {
      for (size_t s = 0; s < rows_[p].size(); ++s) {
        for_slices(p, s, [&](const Interval& slice, uint64_t) {
          held[rows_[p][s]].emplace_back(slice.first, slice.length);
        });
      }
    }
    for (size_t row = 0; row < out_.size(); ++row) {
      std::ranges::sort(held[row]);
      uint64_t next = 0;
      for (const auto& [first, length] : held[row]) {
        if (first > next) break;
        next = std::max(next, first + length);
      }
      if (next < length_of(row)) no_rank_holds(row, next, "slices");
    }
  }

  [[noreturn]] void no_rank_holds(size_t row, uint64_t token, std::string_view name) const {
    fail(*first_[row], name,
         "no rank holds token " + std::to_string(token) + " of " + sample_text(row));
  }

  /// `use(slice, where its elements begin)` for those of a row of a part.
  template <class Use>
  void for_slices(size_t p, size_t s, Use use) const {
    const TrainData& data = parts_[p]->data;
    uint64_t at = data.offsets[s];
    for (uint64_t i = data.slices->offsets[s]; i < data.slices->offsets[s + 1]; ++i) {
      use(data.slices->slices[i], at);
      at += data.slices->slices[i].length;
    }
  }

  /// What a part has of a column of tokens, and which of its samples have it.
  struct Elements {
    std::span<const std::byte> bytes;
    DType dtype = DType::kU8;
    const Presence* presence = nullptr;
  };
  /// Joins a column of tokens. `of(part)`: its elements; nothing where the part lacks it. Returns
  /// which samples have any.
  template <class T, class Of>
  Presence join_column(std::string_view name, std::span<T> out, Of of) const {
    constexpr DType dtype = dtype_for<T>();
    const uint64_t total = out_.offsets.back();
    LogicalTensor whole(dtype, {total}, std::as_writable_bytes(out));
    Presence there(out_.size(), 0);
    for (size_t p = 0; p < parts_.size(); ++p) {
      const std::optional<Elements> from = of(parts_[p]->data);
      if (!from) continue;
      for (size_t s = 0; s < rows_[p].size(); ++s) {
        if (from->presence != nullptr && !is_present(*from->presence, s)) continue;
        const size_t row = rows_[p][s];
        there[row] = 1;
        for_slices(p, s, [&](const Interval& slice, uint64_t at) {
          const size_t size = size_of(from->dtype);
          const Box box{{}, {{out_.offsets[row] + slice.first, slice.length, total}}};
          const auto differs =
              whole.put(box, from->dtype, from->bytes.subspan(at * size, slice.length * size), p);
          if (!differs) return;
          fail(*parts_[p], name,
               "token " + std::to_string(differs->element - out_.offsets[row]) + " of " +
                   sample_text(row) + " has " + differs->now + " here, and " + differs->before +
                   " in " + parts_[differs->first]->unit->path);
        });
      }
    }
    for (size_t row = 0; row < out_.size(); ++row) {
      if (there[row] == 0) {
        const std::vector<std::byte> zeros(length_of(row) * size_of(dtype));
        const Box box{{}, {{out_.offsets[row], length_of(row), total}}};
        static_cast<void>(whole.put(box, dtype, zeros, 0));
      }
    }
    if (const auto gap = whole.gap()) {
      const auto after = std::ranges::upper_bound(out_.offsets, *gap);
      const auto row = static_cast<size_t>(after - out_.offsets.begin()) - 1;
      no_rank_holds(row, *gap - out_.offsets[row], name);
    }
    if (std::ranges::find(there, 0) == there.end()) there.clear();
    return there;
  }

  template <class T>
  std::vector<T> room(std::string_view name) {
    const uint64_t total = out_.offsets.back();
    held_.hold(*parts_.front()->unit, group_ + "/" + std::string(name),
               total * sizeof(T) + LogicalTensor::bookkeeping(total));
    return std::vector<T>(total);
  }

  template <class T>
  static Elements elements(const std::vector<T>& values, const Presence* presence) {
    return {std::as_bytes(std::span(values)), dtype_for<T>(), presence};
  }

  /// Columns without a presence: all samples of all parts have them, or none.
  template <class T>
  void join(std::string_view name, std::optional<std::vector<T>> TrainData::*field, Axis axis) {
    if (name == "micro_batch") return join_packing(name, field);
    if (axis == Axis::kSample) return join_numbers(name, field);
    std::vector<T>& to = (out_.*field).emplace(room<T>(name));
    const auto of = [&](const TrainData& data) -> std::optional<Elements> {
      if (!(data.*field)) return std::nullopt;
      return elements(*(data.*field), nullptr);
    };
    if (join_column(name, std::span(to), of).empty()) return;
    fail(*parts_.front(), name, "a rank has it of its samples, and no rank of another's");
  }

  template <class T>
  void join(std::string_view name, std::optional<Column<T>> TrainData::*field, Axis axis) {
    if (axis == Axis::kSample) return join_numbers(name, field);
    Column<T>& to = (out_.*field).emplace();
    to.values = room<T>(name);
    const auto of = [&](const TrainData& data) -> std::optional<Elements> {
      if (!(data.*field)) return std::nullopt;
      return elements((data.*field)->values, &(data.*field)->presence);
    };
    to.presence = join_column(name, std::span(to.values), of);
  }

  void join(std::string_view name, std::optional<TokenFloats> TrainData::*field, Axis) {
    const bool wide = std::ranges::any_of(parts_, [&](const TrainRank* part) {
      return (part->data.*field) && (part->data.*field)->is_wide();
    });
    TokenFloats& to = (out_.*field).emplace();
    const auto of = [&](const TrainData& data) -> std::optional<Elements> {
      const auto& from = data.*field;
      if (!from) return std::nullopt;
      return from->is_wide() ? elements(from->wide, &from->presence)
                             : elements(from->narrow, &from->presence);
    };
    if (wide) {
      to.wide = room<double>(name);
      to.presence = join_column(name, std::span(to.wide), of);
    } else {
      to.narrow = room<float>(name);
      to.presence = join_column(name, std::span(to.narrow), of);
    }
  }

  template <class Field>
  bool none_has(Field field) const {
    return std::ranges::none_of(
        parts_, [&](const TrainRank* part) { return (part->data.*field).has_value(); });
  }

  using Parts = std::vector<size_t>;  // by their places in parts_

  Parts all_parts() const {
    Parts out(parts_.size());
    std::iota(out.begin(), out.end(), size_t{0});
    return out;
  }

  /// Parts by the samples that they hold, whichever tokens of them; none of those without any.
  std::map<std::vector<size_t>, Parts> by_samples() const {
    std::map<std::vector<size_t>, Parts> out;
    for (size_t p = 0; p < parts_.size(); ++p) {
      std::vector<size_t> rows = rows_[p];
      std::ranges::sort(rows);
      if (!rows.empty()) out[std::move(rows)].push_back(p);
    }
    return out;
  }

  /// Numbers of samples: the first rank's that has one.
  template <class T, class Take>
  std::vector<std::optional<T>> numbers_of(std::string_view name, const Parts& parts,
                                           Take take) const {
    std::vector<std::optional<T>> out(out_.size());
    std::vector<const TrainRank*> from(out_.size());
    for (const size_t p : parts) {
      for (size_t s = 0; s < rows_[p].size(); ++s) {
        const std::optional<T> value = take(parts_[p]->data, s);
        const size_t row = rows_[p][s];
        if (!value) continue;
        if (out[row] && !same_value(*out[row], *value)) {
          fail(*parts_[p], name,
               sample_text(row) + " has another " + std::string(name) + " here than in " +
                   from[row]->unit->path);
        }
        if (out[row]) continue;
        out[row] = value;
        from[row] = parts_[p];
      }
    }
    return out;
  }

  /// How a rank packed is its own: ranks of the same samples agree, and of other ranks there is no
  /// number that is the step's.
  template <class T>
  void join_packing(std::string_view name, std::optional<std::vector<T>> TrainData::*field) {
    const auto take = [&](const TrainData& data, size_t s) -> std::optional<T> {
      return data.*field ? std::optional((*(data.*field))[s]) : std::nullopt;
    };
    const auto alike = by_samples();
    for (const auto& group : alike) {
      const auto numbers = numbers_of<T>(name, group.second, take);
      const bool all = std::ranges::all_of(numbers, [](const auto& of) { return of.has_value(); });
      if (alike.size() > 1 || !all) continue;
      std::vector<T>& to = (out_.*field).emplace();
      for (const std::optional<T>& number : numbers) to.push_back(*number);
    }
  }

  template <class T>
  void join_numbers(std::string_view name, std::optional<std::vector<T>> TrainData::*field) {
    const auto numbers =
        numbers_of<T>(name, all_parts(), [&](const TrainData& data, size_t s) -> std::optional<T> {
          return data.*field ? std::optional((*(data.*field))[s]) : std::nullopt;
        });
    std::vector<T>& to = (out_.*field).emplace();
    for (size_t row = 0; row < numbers.size(); ++row) {
      if (!numbers[row]) fail(*first_[row], name, "no rank has it of " + sample_text(row));
      to.push_back(*numbers[row]);
    }
  }

  template <class T>
  void join_numbers(std::string_view name, std::optional<Column<T>> TrainData::*field) {
    const auto numbers =
        numbers_of<T>(name, all_parts(), [&](const TrainData& data, size_t s) -> std::optional<T> {
          const auto& column = data.*field;
          return column && column->has(s) ? std::optional(column->values[s]) : std::nullopt;
        });
    Column<T>& to = (out_.*field).emplace();
    for (const std::optional<T>& number : numbers) {
      to.values.push_back(number.value_or(T()));
      to.presence.push_back(number ? 1 : 0);
    }
    if (std::ranges::find(to.presence, 0) == to.presence.end()) to.presence.clear();
  }

  std::string group_;
  HeldBytes& held_;
  std::vector<TrainRank*> parts_;          // that hold slices
  std::vector<std::vector<size_t>> rows_;  // of each part's samples in `out_`
  std::vector<const TrainRank*> first_;    // by row, who names it first
  TrainData out_;
};

}  // namespace

void put_together(std::vector<TrainRank>& ranks, const std::string& group, HeldBytes& held) {
  SliceJoin(ranks, group, held).run();
}

}  // namespace rlreplay::format
