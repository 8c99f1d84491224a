#include "format/absent_values.h"

#include <initializer_list>
#include <limits>

namespace rlreplay::format {
namespace {

template <class Number>
constexpr Number kNoNumber = std::numeric_limits<Number>::quiet_NaN();

/// Which samples have a value of all parts of a column.
Presence presence_of(GroupReader& reader, std::initializer_list<std::string_view> parts) {
  Presence all;
  for (const std::string_view part : parts) {
    Presence one;
    reader.presence(part, one);
    if (all.empty()) all.resize(one.size(), 1);
    for (size_t s = 0; s < one.size(); ++s) all[s] &= one[s];
  }
  return all;
}

/// `value` in the rows of samples that have none, `width` elements each.
template <class T>
void fill_absent(std::vector<T>& values, const std::vector<uint64_t>& offsets, size_t width,
                 const Presence& presence, T value) {
  for (size_t s = 0; s < presence.size(); ++s) {
    if (presence[s] != 0) continue;
    std::fill(values.begin() + static_cast<ptrdiff_t>(offsets[s] * width),
              values.begin() + static_cast<ptrdiff_t>(offsets[s + 1] * width), value);
  }
}

/// Without the rows of samples that have none.
template <class T>
void drop_absent(std::vector<T>& values, const std::vector<uint64_t>& offsets, size_t width,
                 const Presence& presence) {
  std::vector<T> kept;
  for (size_t s = 0; s < presence.size(); ++s) {
    if (presence[s] == 0) continue;
    kept.insert(kept.end(), values.begin() + static_cast<ptrdiff_t>(offsets[s] * width),
                values.begin() + static_cast<ptrdiff_t>(offsets[s + 1] * width));
  }
  values = std::move(kept);
}

std::vector<uint64_t> offsets_without(const std::vector<uint64_t>& offsets,
                                      const Presence& presence) {
  std::vector<uint64_t> out = {0};
  for (size_t s = 0; s < presence.size(); ++s) {
    out.push_back(out.back() + (presence[s] != 0 ? offsets[s + 1] - offsets[s] : 0));
  }
  return out;
}

void settle(GroupReader& reader, std::vector<Finish>& finish) {
  const Presence presence = presence_of(reader, {"finish"});
  for (size_t s = 0; s < presence.size(); ++s) {
    if (presence[s] == 0) finish[s] = Finish::kUnknown;
  }
}

void settle(GroupReader& reader, Versions& versions) {
  const Presence presence = presence_of(reader, {"versions"});
  if (presence.empty()) return;
  drop_absent(versions.versions, versions.offsets, 1, presence);
  if (versions.starts) drop_absent(*versions.starts, versions.offsets, 1, presence);
  versions.offsets = offsets_without(versions.offsets, presence);
}

void settle(GroupReader& reader, Calls& calls) {
  const auto fill = [&](std::string_view name, auto& column, size_t width, auto value) {
    fill_absent(column, calls.offsets, width, presence_of(reader, {name}), value);
  };
  const size_t width = calls.numbers ? calls.numbers->names.size() : 0;
  if (calls.finish) fill("call_finish", *calls.finish, 1, Finish::kUnknown);
  if (calls.truncated) fill("call_truncated", *calls.truncated, 1, uint8_t{255});
  if (calls.numbers) {
    fill("call_numbers", calls.numbers->values, width, kNoNumber<double>);
    calls.numbers->presence.clear();  // its rows are calls
  }
  const Presence presence = presence_of(reader, {"call_first", "call_length"});
  if (presence.empty()) return;
  drop_absent(calls.first, calls.offsets, 1, presence);
  drop_absent(calls.length, calls.offsets, 1, presence);
  if (calls.finish) drop_absent(*calls.finish, calls.offsets, 1, presence);
  if (calls.truncated) drop_absent(*calls.truncated, calls.offsets, 1, presence);
  if (calls.version) drop_absent(*calls.version, calls.offsets, 1, presence);
  if (calls.seed) drop_absent(*calls.seed, calls.offsets, 1, presence);
  if (calls.numbers) drop_absent(calls.numbers->values, calls.offsets, width, presence);
  calls.offsets = offsets_without(calls.offsets, presence);
  if (calls.size() == 0) calls.numbers.reset();  // without rows there are no names either
}

void settle(GroupReader& reader, Experts& experts, const std::vector<uint64_t>& offsets) {
  if (experts.gates) {
    fill_absent(*experts.gates, offsets, experts.layers * experts.slots,
                presence_of(reader, {"expert_gates"}), kNoNumber<float>);
  }
  const Presence presence = presence_of(reader, {"experts"});
  if (presence.empty()) return;
  if (!experts.recorded) experts.recorded.emplace(offsets.back(), 1);
  fill_absent(*experts.recorded, offsets, 1, presence, uint8_t{0});
}

}  // namespace

void settle_absent(GroupReader& reader, RolloutData& data) {
  if (data.finish) settle(reader, *data.finish);
  if (data.versions) settle(reader, *data.versions);
  if (data.calls) settle(reader, *data.calls);
  if (data.experts) settle(reader, *data.experts, data.offsets);
}

}  // namespace rlreplay::format
