#include "src/replay/exchange/group_strip.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <span>
#include <string_view>

#include "format/columns.h"
#include "format/group_io.h"
#include "format/rule.h"

namespace rlreplay::replay {
namespace {

void set(format::Dataset& dataset, std::vector<std::byte> bytes, uint64_t rows) {
  const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  dataset.shape[0] = rows;
  dataset.bytes = *owner;
  dataset.owner = owner;
}

}  // namespace

const format::StoredDataset* GroupStrip::find(const std::string& name) const {
  return unit_.find(group_ + "/" + name);
}

GroupStrip::Lengths GroupStrip::numbers(const std::string& name) const {
  const format::GroupReader reader(dump_, unit_, group_);
  const format::StoredDataset* dataset = find(name);
  return dataset == nullptr ? Lengths{} : reader.read<uint64_t>(*dataset);
}

bool GroupStrip::keeps_all() const { return std::ranges::find(rows_, 0) == rows_.end(); }

bool GroupStrip::keeps_none() const { return std::ranges::find(rows_, 1) == rows_.end(); }

bool GroupStrip::cut(const std::string& name, format::Dataset& dataset) const {
  if (keeps_all()) return true;
  const std::string_view kind = format::kind_of(unit_.record().path);
  const format::KnownDataset* known = format::find_known(kind, name);
  if (known == nullptr) return false;
  if (known->values == format::Values::kOffsets) {
    cut_offsets(name, dataset);
    return true;
  }
  const char axis = known->shape.front();
  const std::string own = format::offsets_for(kind, axis);
  if (axis != 'S' && axis != 'T' && own.empty()) return true;  // not of samples
  if (axis == 'S') {
    Lengths places(rows_.size() + 1);
    std::iota(places.begin(), places.end(), uint64_t{0});
    cut_rows(name, "sample_id", places, dataset);
  } else {
    cut_rows(name, own, numbers(own), dataset);
  }
  return true;
}

/// Hashes that fit say nothing of where numbers lead.
void GroupStrip::expect_sound(const std::string& name, const std::string& by, const Lengths& places,
                              uint64_t rows) const {
  if (format::sound_offsets(places, rows_.size(), rows)) return;
  const uint64_t last = places.empty() ? 0 : places.back();
  std::string message = "there are " + std::to_string(rows) + " rows, and " + group_ + "/" + by +
                        " makes it " + std::to_string(last);
  if (last == rows) {
    message = "its rows cannot be told apart: " + group_ + "/" + by + " has " +
              std::to_string(places.size()) + " numbers, expected " +
              std::to_string(rows_.size() + 1) + " that ascend from 0 to " + std::to_string(rows);
  }
  throw format::FormatError(format::Rule::kMeaning, message, unit_.record().path,
                            group_ + "/" + name);
}

void GroupStrip::cut_offsets(const std::string& name, format::Dataset& dataset) const {
  const Lengths before = numbers(name);
  expect_sound(name, name, before, before.empty() ? 0 : before.back());
  Lengths after = {0};
  for (size_t s = 0; s < rows_.size(); ++s) {
    if (rows_[s] != 0) after.push_back(after.back() + before[s + 1] - before[s]);
  }
  const auto bytes = std::as_bytes(std::span(after));
  set(dataset, {bytes.begin(), bytes.end()}, after.size());
}

void GroupStrip::cut_rows(const std::string& name, const std::string& by, const Lengths& places,
                          format::Dataset& dataset) const {
  expect_sound(name, by, places, dataset.shape.empty() ? 0 : dataset.shape.front());
  uint64_t width = size_of(dataset.dtype);
  for (size_t d = 1; d < dataset.shape.size(); ++d) width *= dataset.shape[d];
  std::vector<std::byte> kept;
  uint64_t rows = 0;
  for (size_t s = 0; s < rows_.size(); ++s) {
    if (rows_[s] == 0) continue;
    const uint64_t count = places[s + 1] - places[s];
    const auto rows_of_sample = dataset.bytes.subspan(places[s] * width, count * width);
    kept.insert(kept.end(), rows_of_sample.begin(), rows_of_sample.end());
    rows += count;
  }
  set(dataset, std::move(kept), rows);
}

}  // namespace rlreplay::replay
