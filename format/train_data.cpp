#include "format/train_data.h"

#include <algorithm>

#include "format/group_io.h"

namespace rlreplay::format {
namespace {

template <class Data, class Visitor>
void visit_train(Data& data, Visitor& visitor) {
  visitor("sample_id", data.sample_id, Axis::kSample);
  visitor("tokens", data.tokens, Axis::kToken);
  visitor("prompt_length", data.prompt_length, Axis::kSample);
  visitor("micro_batch", data.micro_batch, Axis::kSample);
  visitor("loss_mask", data.loss_mask, Axis::kToken);
  visitor("rewards", data.rewards, Axis::kSample);
  visitor("trajectory_id", data.trajectory_id, Axis::kSample);
  visitor("trajectory_tokens", data.trajectory_tokens, Axis::kSample);
  visitor("token_weights", data.token_weights, Axis::kToken);
  for (const TokenColumnField& field : kTokenColumnFields) {
    visitor(field.name, data.*field.column, Axis::kToken);
  }
}

/// Every rule of the fields beyond their lengths. Returns what is wrong, or null.
const char* contradiction(const TrainData& data) {
  for (size_t s = 0; data.prompt_length && s < data.size(); ++s) {
    const uint64_t length = data.offsets[s + 1] - data.offsets[s];
    if ((*data.prompt_length)[s] > length) return "a prompt is longer than its sample";
  }
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
  GroupWriter writer(group, data, {data->size(), data->offsets.back()});
  writer.offsets("offsets", data->offsets, data->offsets.back());
  visit_train(*data, writer);
  if (const char* message = contradiction(*data)) throw Error(ErrorCode::kUsage, message, group);
  if (data->scalars) writer.named("scalars", *data->scalars, 0);
  return writer.finish();
}

TrainData read_train_data(const DumpReader& dump, const UnitReader& unit, const std::string& group,
                          HeldBytes* held) {
  TrainData data;
  GroupReader reader(dump, unit, group, held);
  const StoredDataset* ids = reader.find("sample_id");
  reader.expect(ids != nullptr && ids->shape.size() == 1, "sample_id", "it is missing");
  const StoredDataset* offsets = reader.find("offsets");
  reader.expect(offsets != nullptr && offsets->bytes > 0, "offsets", "it is missing");
  const uint64_t total = reader.read<uint64_t>(*offsets).back();
  data.offsets = reader.offsets("offsets", ids->shape[0], total);
  reader.set_extents({ids->shape[0], total});
  visit_train(data, reader);
  reader.named("scalars", data.scalars, 0);
  const char* message = contradiction(data);
  reader.expect(message == nullptr, "sample_id", message);
  return data;
}

}  // namespace rlreplay::format
