#include "format/train_data.h"

#include <algorithm>

#include "format/group_io.h"

namespace rlreplay::format {
namespace {

/// Whether each sample's slices lie within it and are as many tokens as it has.
bool are_sound(const TrainData& data) {
  const TokenSlices& of = *data.slices;
  if (of.lengths.size() != data.size()) return false;
  if (!sound_offsets(of.offsets, data.size(), of.slices.size())) return false;
  for (size_t s = 0; s < data.size(); ++s) {
    uint64_t stored = 0;
    for (uint64_t i = of.offsets[s]; i < of.offsets[s + 1]; ++i) {
      const Interval& slice = of.slices[i];
      if (slice.of != of.lengths[s] || !lies_within(slice)) return false;
      if (__builtin_add_overflow(stored, slice.length, &stored)) return false;
    }
    if (stored != data.offsets[s + 1] - data.offsets[s]) return false;
  }
  return true;
}

void add_slices(GroupWriter& writer, const TokenSlices& slices) {
  writer.offsets("slice_offsets", slices.offsets, slices.slices.size());
  std::vector<uint64_t> numbers;
  for (const Interval& slice : slices.slices) {
    numbers.insert(numbers.end(), {slice.first, slice.length});
  }
  writer.add(dataset_of(writer.path("slices"), DType::kU64, {slices.slices.size(), 2},
                        std::move(numbers)));
  writer.add("lengths", DType::kU64, {slices.lengths.size()},
             std::as_bytes(std::span(slices.lengths)));
}

void read_slices(GroupReader& reader, TrainData& data) {
  const StoredDataset *stored = reader.find("slices"), *lengths = reader.find("lengths");
  if (stored == nullptr && lengths == nullptr) return;
  if (stored == nullptr) reader.refuse("slices", "it is missing");
  if (stored->shape.size() != 2 || stored->shape[1] != 2) {
    reader.refuse("slices", "its shape is " + shape_text(stored->shape) + ", expected [slices, 2]");
  }
  TokenSlices& slices = data.slices.emplace();
  slices.lengths = reader.read<uint64_t>(reader.needed("lengths"));
  slices.offsets = reader.offsets("slice_offsets", data.size(), stored->shape[0]);
  reader.expect_size(slices.lengths.size(), data.size(), "lengths");
  const std::vector<uint64_t> numbers = reader.read<uint64_t>(*stored);
  for (size_t s = 0; s < data.size(); ++s) {
    for (uint64_t i = slices.offsets[s]; i < slices.offsets[s + 1]; ++i) {
      slices.slices.push_back({numbers[2 * i], numbers[2 * i + 1], slices.lengths[s]});
    }
  }
}

/// Every rule of the fields beyond their lengths. Returns what is wrong, or null.
const char* contradiction(const TrainData& data) {
  std::vector<uint64_t> ids = data.sample_id;
  std::ranges::sort(ids);
  if (std::ranges::adjacent_find(ids) != ids.end()) return "a sample of the rank is there twice";
  for (size_t s = 0; data.prompt_length && s < data.size(); ++s) {
    if ((*data.prompt_length)[s] > data.length(s)) return "a prompt is longer than its sample";
  }
  if (data.slices && !are_sound(data)) return "the slices of samples are not their tokens";
  if (data.loss_mask) {
    const auto& mask = data.loss_mask->values;
    if (std::any_of(mask.begin(), mask.end(), [](uint8_t m) { return m > 1; })) {
      return "the loss mask holds values other than 0 and 1";
    }
  }
  return nullptr;
}

}  // namespace

std::vector<Dataset> to_datasets(std::shared_ptr<const TrainData> data, const std::string& group) {
  const Extents extents{data->size(), data->offsets.back()};
  GroupWriter writer(group, data, extents);
  writer.offsets("offsets", data->offsets, extents.tokens);
  writer.put("sample_id", data->sample_id, extents.samples);
  for_each_train_column([&](std::string_view name, auto member, Axis axis) {
    writer.put(name, (*data).*member, extents.of(axis));
  });
  if (const char* message = contradiction(*data)) throw Error(ErrorCode::kUsage, message, group);
  if (data->slices) add_slices(writer, *data->slices);
  if (data->scalars) writer.named("scalars", *data->scalars, 0);
  return writer.finish();
}

TrainData read_train_data(const DumpReader& dump, const UnitReader& unit, const std::string& group,
                          HeldBytes* held) {
  TrainData data;
  GroupReader reader(dump, unit, group, held);
  const StoredDataset& ids = reader.needed("sample_id");
  reader.check_form(ids, DType::kU64);
  const std::vector<uint64_t> offsets = reader.read<uint64_t>(reader.needed("offsets"));
  if (offsets.empty())
    reader.refuse("offsets", "it is empty, expected one offset more than samples");
  const Extents extents{ids.shape[0], offsets.back()};
  data.offsets = reader.offsets("offsets", extents.samples, extents.tokens);
  reader.set_extents(extents);
  reader.take("sample_id", data.sample_id, extents.samples);
  for_each_train_column([&](std::string_view name, auto member, Axis axis) {
    reader.take(name, data.*member, extents.of(axis));
  });
  read_slices(reader, data);
  reader.named("scalars", data.scalars, 0);
  reader.check_presences();
  if (const char* message = contradiction(data)) reader.refuse("sample_id", message);
  return data;
}

}  // namespace rlreplay::format
