#include "src/replay/compare/sample_table.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace rlreplay::replay {
namespace {

using format::Axis;
using format::Calls;
using format::Column;
using format::Experts;
using format::NamedColumns;
using format::RolloutData;
using format::Texts;
using format::TokenFloats;
using format::TokenSets;
using format::TrainData;
using format::Versions;
using Found = std::optional<FieldValues>;

/// Where a sample lies in one of the parts.
template <class Data>
struct Place {
  const Data* data;
  size_t row;
  uint64_t prompt;  // tokens of it, as any of the sample's places says

  uint64_t begin() const { return data->offsets[row]; }
  uint64_t end() const { return data->offsets[row + 1]; }
};

/// Where the samples of a table lie in the data that it is made of, by row.
template <class Data>
using Places = std::vector<std::vector<Place<Data>>>;

template <class Data>
std::shared_ptr<const Places<Data>> places_of(std::span<const Data> parts,
                                              std::map<uint64_t, size_t>& rows) {
  auto samples = std::make_shared<Places<Data>>();
  for (const Data& data : parts) {
    for (size_t s = 0; s < data.size(); ++s) {
      const auto [at, fresh] = rows.emplace(data.sample_id[s], samples->size());
      if (fresh) samples->emplace_back();
      (*samples)[at->second].push_back({&data, s, 0});
    }
  }
  for (auto& places : *samples) {
    uint64_t prompt = 0;
    for (const auto& [data, row, unused] : places) {
      if (prompt == 0 && data->prompt_length) prompt = (*data->prompt_length)[row];
    }
    for (auto& place : places) place.prompt = std::min(prompt, place.end() - place.begin());
  }
  return samples;
}

/// Rows of `width` numbers each, which are of no tokens.
template <class T>
FieldValues rows_of(const std::vector<T>& values, uint64_t begin, uint64_t end,
                    uint64_t width = 1) {
  return {std::span<const T>(values).subspan(begin * width, (end - begin) * width), std::nullopt};
}

FieldValues rows_of(const std::vector<format::Finish>& values, uint64_t begin, uint64_t end) {
  const auto* codes = reinterpret_cast<const uint8_t*>(values.data());
  return {std::span<const uint8_t>(codes + begin, end - begin), std::nullopt};
}

FieldValues rows_of(const NamedColumns& of, uint64_t begin, uint64_t end) {
  FieldValues out = rows_of(of.values, begin, end, of.names.size());
  out.columns = &of.names;
  return out;
}

// What a column of each form says of a sample.

template <class Data, class T>
Found value_of(const Place<Data>& at, const std::vector<T>& values, Axis axis) {
  if (axis == Axis::kSample) return rows_of(values, at.row, at.row + 1);
  const uint64_t first = axis == Axis::kResponse ? at.prompt : 0;
  return FieldValues{rows_of(values, at.begin() + first, at.end()).values, first};
}

template <class Data, class T>
Found value_of(const Place<Data>& at, const Column<T>& column, Axis axis) {
  return column.has(at.row) ? value_of(at, column.values, axis) : std::nullopt;
}

template <class Data>
Found value_of(const Place<Data>& at, const TokenFloats& column, Axis axis) {
  if (!column.has(at.row)) return std::nullopt;
  return column.is_wide() ? value_of(at, column.wide, axis) : value_of(at, column.narrow, axis);
}

template <class Data>
Found value_of(const Place<Data>& at, const Texts& texts, Axis) {
  if (!texts.has(at.row)) return std::nullopt;
  return FieldValues{texts.at(at.row), std::nullopt};
}

template <class Data>
Found value_of(const Place<Data>& at, const NamedColumns& columns, Axis) {
  if (!format::is_present(columns.presence, at.row)) return std::nullopt;
  return rows_of(columns, at.row, at.row + 1);
}

/// Adds the fields of columns, of all parts together: of a sample's places the first that has it.
template <class Data>
class FieldMaker {
 public:
  FieldMaker(std::string kind, std::shared_ptr<const Places<Data>> samples)
      : kind_(std::move(kind) + "/"), samples_(std::move(samples)) {}

  template <class T>
  void add(std::string_view name, std::optional<T> Data::*member, Axis axis) {
    add_of(name, member,
           [axis](const Place<Data>& at, const T& column) { return value_of(at, column, axis); });
    if (name == "prompt_length") add_prompt();
  }

  void add(std::string_view name, std::vector<int32_t> Data::*member, Axis) {
    add_taken(name, [member](const Place<Data>& at) {
      return value_of(at, at.data->*member, Axis::kResponse);
    });
  }

  void add(std::string_view name, std::optional<Versions> Data::*member, Axis) {
    add_of(name, member, [](const Place<Data>& at, const Versions& of) -> Found {
      return rows_of(of.versions, of.offsets[at.row], of.offsets[at.row + 1]);
    });
    add_of("version_starts", member, [](const Place<Data>& at, const Versions& of) -> Found {
      if (!of.starts) return std::nullopt;
      return rows_of(*of.starts, of.offsets[at.row], of.offsets[at.row + 1]);
    });
  }

  void add(std::string_view, std::optional<Calls> Data::*member, Axis) {
    Calls::for_each_column([&](std::string_view name, auto column) {
      add_of(name, member, [column](const Place<Data>& at, const Calls& of) -> Found {
        if (!(of.*column)) return std::nullopt;
        return rows_of(*(of.*column), of.offsets[at.row], of.offsets[at.row + 1]);
      });
    });
    add_of("call_first", member, [](const Place<Data>& at, const Calls& of) -> Found {
      return rows_of(of.first, of.offsets[at.row], of.offsets[at.row + 1]);
    });
    add_of("call_length", member, [](const Place<Data>& at, const Calls& of) -> Found {
      return rows_of(of.length, of.offsets[at.row], of.offsets[at.row + 1]);
    });
  }

  void add(std::string_view name, std::optional<TokenSets> Data::*member, Axis axis) {
    add_of("nucleus_size", member, [axis](const Place<Data>& at, const TokenSets& of) -> Found {
      return of.has(at.row) ? value_of(at, of.sizes, axis) : std::nullopt;
    });
    add_of(name, member, [](const Place<Data>& at, const TokenSets& of) -> Found {
      if (!of.has(at.row)) return std::nullopt;
      return rows_of(of.ids, of.offsets[at.row], of.offsets[at.row + 1]);
    });
  }

  void add(std::string_view name, std::optional<Experts> Data::*member, Axis axis) {
    add_of("expert_layers", member, [](const Place<Data>&, const Experts& of) -> Found {
      if (!of.layer_ids) return std::nullopt;
      return rows_of(*of.layer_ids, 0, of.layers);
    });
    add_of("expert_recorded", member, [axis](const Place<Data>& at, const Experts& of) -> Found {
      return of.recorded ? value_of(at, *of.recorded, axis) : std::nullopt;
    });
    add_of(name, member, [](const Place<Data>& at, const Experts& of) -> Found {
      return rows_of(of.experts, at.begin(), at.end(), of.layers * of.slots);
    });
    add_of("expert_gates", member, [](const Place<Data>& at, const Experts& of) -> Found {
      if (!of.gates) return std::nullopt;
      return rows_of(*of.gates, at.begin(), at.end(), of.layers * of.slots);
    });
  }

  /// What stands for a field's values that were not recorded.
  void imply(std::string_view name, std::function<Found(size_t)> implied) {
    std::ranges::find(fields_, kind_ + std::string(name), &SampleTable::Field::name)->implied =
        std::move(implied);
  }

  std::vector<SampleTable::Field> finish() { return std::move(fields_); }

 private:
  void add_prompt() {
    if constexpr (std::is_same_v<Data, RolloutData>) {
      add_taken("prompt", [](const Place<Data>& at) -> Found {
        if (!at.data->prompt_length) return std::nullopt;
        const uint64_t own = (*at.data->prompt_length)[at.row];
        return FieldValues{rows_of(at.data->tokens, at.begin(), at.begin() + own).values, 0};
      });
    }
  }

  /// `take(place, column)` where the place's part has it.
  template <class T, class Take>
  void add_of(std::string_view name, std::optional<T> Data::*member, Take take) {
    add_taken(name, [member, take](const Place<Data>& at) -> Found {
      const auto& column = at.data->*member;
      return column ? take(at, *column) : std::nullopt;
    });
  }

  template <class Take>
  void add_taken(std::string_view name, Take take) {
    const auto values = [samples = samples_, take](size_t row) -> Found {
      for (const Place<Data>& at : (*samples)[row]) {
        if (Found found = take(at)) return found;
      }
      return std::nullopt;
    };
    fields_.push_back({kind_ + std::string(name), values, {}});
  }

  std::string kind_;
  std::shared_ptr<const Places<Data>> samples_;  // each of `fields_` has it, too
  std::vector<SampleTable::Field> fields_;
};

/// The step's own count of each trajectory's unmasked tokens, by sample; nothing where a mask is
/// not there.
std::shared_ptr<const std::vector<uint64_t>> counted_tokens(const Places<TrainData>& samples) {
  std::map<std::pair<bool, uint64_t>, uint64_t> counts;
  std::vector<std::pair<bool, uint64_t>> keys;
  for (const auto& places : samples) {
    const TrainData* masked = nullptr;
    size_t row = 0;
    std::pair<bool, uint64_t> key(false, places.front().data->sample_id[places.front().row]);
    for (const auto& place : places) {
      const auto& trajectory = place.data->trajectory_id;
      if (!key.first && trajectory && trajectory->has(place.row)) {
        key = {true, trajectory->values[place.row]};
      }
      if (masked != nullptr || !place.data->loss_mask || !place.data->loss_mask->has(place.row)) {
        continue;
      }
      masked = place.data;
      row = place.row;
    }
    if (masked == nullptr) return nullptr;
    const auto mask =
        std::span(masked->loss_mask->values)
            .subspan(masked->offsets[row], masked->offsets[row + 1] - masked->offsets[row]);
    counts[key] += static_cast<uint64_t>(std::ranges::count(mask, uint8_t{1}));
    keys.push_back(key);
  }
  auto out = std::make_shared<std::vector<uint64_t>>();
  for (const auto& key : keys) out->push_back(counts.at(key));
  return out;
}

template <class T>
FieldValues::List list_of(std::span<const std::byte> bytes) {
  return std::span<const T>(reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T));
}

}  // namespace

std::optional<FieldValues> values_of(DType dtype, std::span<const std::byte> bytes) {
  switch (dtype) {
    case DType::kU8:
    case DType::kBool:
      return FieldValues{list_of<uint8_t>(bytes), std::nullopt};
    case DType::kU16:
      return FieldValues{list_of<uint16_t>(bytes), std::nullopt};
    case DType::kI32:
      return FieldValues{list_of<int32_t>(bytes), std::nullopt};
    case DType::kU32:
      return FieldValues{list_of<uint32_t>(bytes), std::nullopt};
    case DType::kI64:
      return FieldValues{list_of<int64_t>(bytes), std::nullopt};
    case DType::kU64:
      return FieldValues{list_of<uint64_t>(bytes), std::nullopt};
    case DType::kF32:
      return FieldValues{list_of<float>(bytes), std::nullopt};
    case DType::kF64:
      return FieldValues{list_of<double>(bytes), std::nullopt};
    default:
      return std::nullopt;
  }
}

SampleTable SampleTable::of(const RolloutData& data) { return of(std::span(&data, 1)); }

SampleTable SampleTable::of(std::span<const RolloutData> parts) {
  SampleTable table;
  FieldMaker<RolloutData> maker("rollout", places_of(parts, table.rows_));
  format::for_each_rollout_column(
      [&](std::string_view name, auto member, Axis axis) { maker.add(name, member, axis); });
  maker.imply("removed", [](size_t) {
    static constexpr uint8_t kNotRemoved = 0;
    return Found(FieldValues{std::span<const uint8_t>(&kNotRemoved, 1), std::nullopt});
  });
  table.fields_ = maker.finish();
  return table;
}

SampleTable SampleTable::of(std::span<const TrainData> ranks) {
  SampleTable table;
  const auto samples = places_of(ranks, table.rows_);
  FieldMaker<TrainData> maker("train", samples);
  format::for_each_train_column([&](std::string_view name, auto member, Axis axis) {
    if (name != "micro_batch") maker.add(name, member, axis);  // says how a rank packed
  });
  if (auto counted = counted_tokens(*samples)) {
    maker.imply("trajectory_tokens", [counted = std::move(counted)](size_t row) {
      return Found(rows_of(*counted, row, row + 1));
    });
  }
  table.fields_ = maker.finish();
  return table;
}

}  // namespace rlreplay::replay
