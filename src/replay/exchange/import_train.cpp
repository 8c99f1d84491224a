#include "src/replay/exchange/import_train.h"

#include <algorithm>
#include <array>

#include "format/foreign/train_batch.h"
#include "format/foreign/train_shard.h"
#include "src/replay/exchange/cell.h"
#include "src/replay/exchange/train_schedule.h"

namespace rlreplay::replay {
namespace {

using foreign::Kind;
using foreign::TokenColumn;
using foreign::TorchFile;
using foreign::TrainBatch;
using foreign::Value;
using format::Presence;
using format::TokenFloats;
using format::TrainData;

struct Name {
  std::string_view theirs;
  std::string_view ours;
};

// The trainer's log_probs are those before the first update with this rollout.
constexpr auto kNames = std::to_array<Name>({{"tokens", "tokens"},
                                             {"loss_masks", "loss_mask"},
                                             {"rollout_log_probs", "rollout_log_probs"},
                                             {"log_probs", "old_log_probs"},
                                             {"ref_log_probs", "ref_log_probs"},
                                             {"teacher_log_probs", "teacher_log_probs"},
                                             {"entropy", "entropy"},
                                             {"ref_entropy", "ref_entropy"},
                                             {"values", "values"},
                                             {"returns", "returns"},
                                             {"advantages", "advantages"},
                                             {"kl", "kl"},
                                             {"opd_reverse_kl", "reverse_kl"}});

std::string_view our_name(std::string_view theirs) {
  const auto it = std::find_if(kNames.begin(), kNames.end(),
                               [&](const Name& name) { return name.theirs == theirs; });
  return it == kNames.end() ? std::string_view() : it->ours;
}

uint64_t prompt_length(const TrainBatch& batch, size_t i) {
  return batch.offsets[i + 1] - batch.offsets[i] - static_cast<uint64_t>(batch.response_lengths[i]);
}

/// The rows of one step of one column, prompts in front.
template <class T>
std::vector<T> gather(const TrainBatch& batch, std::span<const size_t> rows,
                      const std::vector<uint64_t>& offsets, const std::vector<T>& values) {
  std::vector<T> out;
  for (const size_t i : rows) {
    out.resize(out.size() + prompt_length(batch, i));
    const auto begin = values.begin();
    out.insert(out.end(), begin + static_cast<ptrdiff_t>(offsets[i]),
               begin + static_cast<ptrdiff_t>(offsets[i + 1]));
    const uint64_t found = offsets[i + 1] - offsets[i];
    out.resize(out.size() + static_cast<uint64_t>(batch.response_lengths[i]) - found);
  }
  return out;
}

/// Which of the rows have values; empty where all have. Nothing where none has.
std::optional<Presence> presence(const TrainBatch& batch, std::span<const size_t> rows,
                                 const std::vector<uint64_t>& offsets) {
  Presence mask;
  bool any = false;
  for (const size_t i : rows) {
    const bool has = offsets[i + 1] > offsets[i] || batch.response_lengths[i] == 0;
    any = any || offsets[i + 1] > offsets[i];
    mask.push_back(has ? 1 : 0);
  }
  if (!any) return std::nullopt;
  if (std::count(mask.begin(), mask.end(), 0) == 0) mask.clear();
  return mask;
}

void add_column(const TrainBatch& batch, std::span<const size_t> rows, const TokenColumn& column,
                TrainData& data) {
  const std::string_view name = our_name(column.name());
  for (const format::TokenColumnField& field : format::kTokenColumnFields) {
    if (field.name != name) continue;
    std::optional<Presence> mask = presence(batch, rows, column.offsets());
    if (!mask) return;
    TokenFloats& made = (data.*field.column).emplace();
    made.presence = std::move(*mask);
    if (column.is_narrow()) {
      made.narrow = gather(batch, rows, column.offsets(), column.narrow());
    } else {
      made.wide = gather(batch, rows, column.offsets(), column.wide());
    }
  }
}

std::shared_ptr<TrainData> make_step(const TrainBatch& batch, std::span<const size_t> rows) {
  auto data = std::make_shared<TrainData>();
  data->tokens.emplace();
  data->prompt_length.emplace();
  data->rewards.emplace();
  for (const size_t i : rows) {
    data->sample_id.push_back(static_cast<uint64_t>(batch.sample_index[i]));
    const auto begin = batch.tokens.begin();
    data->tokens->insert(data->tokens->end(), begin + static_cast<ptrdiff_t>(batch.offsets[i]),
                         begin + static_cast<ptrdiff_t>(batch.offsets[i + 1]));
    data->offsets.push_back(data->tokens->size());
    data->prompt_length->push_back(static_cast<uint32_t>(prompt_length(batch, i)));
    data->rewards->values.push_back(batch.rewards[i]);
  }
  if (auto mask = presence(batch, rows, batch.mask_offsets)) {
    data->loss_mask.emplace();
    data->loss_mask->values = gather(batch, rows, batch.mask_offsets, batch.loss_mask);
    data->loss_mask->presence = std::move(*mask);
  }
  for (const TokenColumn& column : batch.columns) add_column(batch, rows, column, *data);
  return data;
}

/// Where a sample lies: its step, and its row there.
struct Place {
  int64_t step = 0;
  size_t row = 0;
};

/// The cell of a file, in either way round; nothing where it is no list or tensor.
std::optional<Value> cell_value(const TorchFile& file, size_t row, std::string_view column) {
  const foreign::Tree& tree = file.tree();
  Value cell;
  if (const Value* data = tree.find(file.root(), "rollout_data")) {
    const Value* values = tree.find(*data, column);
    if (values == nullptr || values->kind != Kind::kList) return std::nullopt;
    const foreign::Sequence& list = tree.sequence(*values);
    if (row >= list.size()) return std::nullopt;
    cell = list[row];
  } else {
    const Value* found = tree.find(tree.sequence(*tree.find(file.root(), "samples"))[row], column);
    if (found == nullptr) return std::nullopt;
    cell = *found;
  }
  if (cell.kind != Kind::kList && cell.kind != Kind::kTensor) return std::nullopt;
  return cell;
}

foreign::Replacements replacements(const TorchFile& file, const ImportedTrain& made,
                                   const std::map<int64_t, Place>& places) {
  foreign::Replacements found;
  const std::vector<int64_t> indices = foreign::TrainShard(file).indices();
  for (size_t row = 0; row < indices.size(); ++row) {
    const Place place = places.at(indices[row]);
    for (const Name& name : kNames) {
      const std::optional<Value> value = cell_value(file, row, name.theirs);
      const std::optional<Cell> cell = find_cell(*made.steps.at(place.step), name.ours, place.row);
      if (!value || !cell || !holds(file.tree(), *value, *cell)) continue;
      std::string text = "train/" + std::to_string(made.rollout_id) + "-" +
                         std::to_string(place.step) + "/" + std::string(name.ours) + "/" +
                         std::to_string(place.row);
      if (value->kind == Kind::kTensor) {
        text += "/" + std::string(foreign::name(file.tree().tensor(*value).dtype));
      }
      found.emplace(foreign::part_key(*value), std::move(text));
    }
  }
  return found;
}

/// The step of every sample; 0 for all where the files do not say.
std::map<int64_t, int64_t> schedule(std::span<const TorchFile* const> files,
                                    const TrainBatch& batch,
                                    std::vector<foreign::Problem>& findings) {
  std::map<int64_t, int64_t> steps;
  bool known = true;
  for (const TorchFile* file : files) {
    const auto of_file = read_schedule(*file);
    known = known && of_file;
    if (of_file) steps.insert(of_file->begin(), of_file->end());
  }
  for (const int64_t sample : batch.sample_index) known = known && steps.contains(sample);
  if (known) return steps;
  findings.push_back({"steps-unknown",
                      "the files do not say which samples belong to which optimizer step: all are "
                      "taken as one step",
                      "rollout " + std::to_string(batch.rollout_id)});
  steps.clear();
  for (const int64_t sample : batch.sample_index) steps[sample] = 0;
  return steps;
}

}  // namespace

ImportedTrain import_train(std::span<const TorchFile* const> files) {
  const TrainBatch batch = assemble_train(files);
  ImportedTrain made;
  made.rollout_id = batch.rollout_id;
  made.findings = batch.findings;
  made.layout = "dp " + std::to_string(batch.shards) + ", cp " + std::to_string(batch.cp_size) +
                ", " + std::to_string(batch.replicas) + (batch.replicas == 1 ? " copy" : " copies");
  const std::map<int64_t, int64_t> steps = schedule(files, batch, made.findings);
  std::map<int64_t, std::vector<size_t>> rows;
  std::map<int64_t, Place> places;
  for (size_t i = 0; i < batch.size(); ++i) {
    const int64_t step = steps.at(batch.sample_index[i]);
    places[batch.sample_index[i]] = {step, rows[step].size()};
    rows[step].push_back(i);
  }
  for (const auto& [step, of_step] : rows) made.steps[step] = make_step(batch, of_step);
  for (const TorchFile* file : files) {
    made.replacements.push_back(replacements(*file, made, places));
  }
  return made;
}

}  // namespace rlreplay::replay
