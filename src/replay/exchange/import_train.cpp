#include "src/replay/exchange/import_train.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "format/foreign/numbers.h"
#include "format/foreign/train_batch.h"
#include "format/foreign/train_shard.h"
#include "src/base/step_id.h"
#include "src/replay/exchange/cell.h"
#include "src/replay/exchange/import_rollout.h"
#include "src/replay/exchange/own_datasets.h"
#include "src/replay/exchange/rank_schedules.h"
#include "src/replay/exchange/rollout_columns.h"
#include "src/replay/exchange/schedule_check.h"
#include "src/replay/exchange/slime_train_columns.h"
#include "src/replay/exchange/train_schedule.h"
#include "src/replay/exchange/trajectory_check.h"

namespace rlreplay::replay {
namespace {

using foreign::FloatColumn;
using foreign::Kind;
using foreign::TorchFile;
using foreign::TrainBatch;
using foreign::Value;
using format::Presence;
using format::TokenFloats;
using format::TrainData;

std::string_view our_name(std::string_view theirs) {
  const auto it = std::ranges::find(kSlimeColumns, theirs, &SlimeColumn::theirs);
  return it == std::end(kSlimeColumns) ? std::string_view() : it->ours;
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

void add_column(const TrainBatch& batch, std::span<const size_t> rows, const FloatColumn& column,
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
  for (const FloatColumn& column : batch.columns) add_column(batch, rows, column, *data);
  return data;
}

/// How the trainer's means over samples count: trajectories of several samples, and what of their
/// unmasked tokens and of their number the samples do not say themselves.
void add_trajectories(const TrainBatch& batch, std::span<const size_t> rows,
                      std::optional<int64_t> counted, TrainData& data) {
  data.trajectory_id = shared_ids(rows, batch.trajectory);
  std::map<std::pair<bool, int64_t>, int64_t> tokens;
  const auto key = [&](size_t i) {
    return std::pair(batch.trajectory[i].has_value(),
                     batch.trajectory[i].value_or(batch.sample_index[i]));
  };
  for (const size_t i : rows) {
    const auto begin = batch.loss_mask.begin();
    const bool masked = batch.mask_offsets[i + 1] > batch.mask_offsets[i];
    tokens[key(i)] +=
        masked ? std::count(begin + static_cast<ptrdiff_t>(batch.mask_offsets[i]),
                            begin + static_cast<ptrdiff_t>(batch.mask_offsets[i + 1]), uint8_t{1})
               : batch.response_lengths[i];
  }
  Presence presence;
  bool other = false;
  auto& sums = data.trajectory_tokens.emplace();
  for (const size_t i : rows) {
    const std::optional<int64_t> sum = batch.trajectory_tokens[i];
    presence.push_back(sum ? 1 : 0);
    sums.values.push_back(static_cast<uint64_t>(sum.value_or(0)));
    other = other || (sum && *sum != tokens[key(i)]);
  }
  keep_presence(data.trajectory_tokens, std::move(presence));
  if (!other) data.trajectory_tokens.reset();
  if (!counted || *counted < 1 || *counted == static_cast<int64_t>(tokens.size())) return;
  data.scalars = {{"trajectories"}, {static_cast<double>(*counted)}, {}};
}

/// Where a sample lies: its step, and its row there.
struct Place {
  int64_t step = 0;
  size_t row = 0;
};

/// The cell of a file, in either way round; nothing where there is none.
std::optional<Value> any_cell(const TorchFile& file, size_t row, std::string_view column) {
  const foreign::Tree& tree = file.tree();
  if (const Value* data = tree.find(file.root(), "rollout_data")) {
    const Value* values = tree.find(*data, column);
    if (values == nullptr || values->kind != Kind::kList) return std::nullopt;
    const foreign::Sequence& list = tree.sequence(*values);
    if (row >= list.size()) return std::nullopt;
    return list[row];
  }
  const Value* found = tree.find(tree.sequence(*tree.find(file.root(), "samples"))[row], column);
  return found == nullptr ? std::nullopt : std::optional(*found);
}

/// The cell of a file as any_cell() gives it, where it is a list or a tensor; else nothing.
std::optional<Value> cell_value(const TorchFile& file, size_t row, std::string_view column) {
  const std::optional<Value> cell = any_cell(file, row, column);
  const bool holds = cell && (cell->kind == Kind::kList || cell->kind == Kind::kTensor);
  return holds ? cell : std::nullopt;
}

void note_inputs(const TorchFile& file, std::set<uint64_t>& with_inputs) {
  const std::vector<int64_t> indices = foreign::TrainShard(file).indices();
  for (size_t row = 0; row < indices.size(); ++row) {
    const auto inputs = any_cell(file, row, "multimodal_train_inputs");
    if (!inputs || !says_something(file.tree(), &*inputs)) continue;
    with_inputs.insert(static_cast<uint64_t>(indices[row]));
  }
}

foreign::Replacements replacements(const TorchFile& file, const ImportedTrain& made,
                                   const std::map<int64_t, Place>& places) {
  foreign::Replacements found;
  const std::vector<int64_t> indices = foreign::TrainShard(file).indices();
  for (size_t row = 0; row < indices.size(); ++row) {
    const Place place = places.at(indices[row]);
    for (const SlimeColumn& name : kSlimeColumns) {
      const std::optional<Value> value = cell_value(file, row, name.theirs);
      const std::optional<Cell> cell = find_cell(*made.steps.at(place.step), name.ours, place.row);
      if (!value || !cell || !holds(file.tree(), *value, *cell)) continue;
      std::string text = "train/" + StepId{made.rollout_id, place.step}.group() + "/" +
                         std::string(name.ours) + "/" + std::to_string(place.row);
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
                                    const TrainBatch& batch, std::optional<size_t> generated,
                                    std::vector<foreign::Problem>& findings) {
  std::map<int64_t, int64_t> steps;
  bool known = false;
  for (auto* check : {&compare_schedules, &check_layouts}) {
    std::ranges::move(check(files), std::back_inserter(findings));
  }
  std::vector<foreign::TrainShard> shards;
  for (const TorchFile* file : files) shards.emplace_back(*file);
  // A selection of samples, exported, is divided by the numbers of all.
  const TorchFile& first = *files.front();
  if (first.tree().find(first.root(), "rlreplay") != nullptr) generated.reset();
  const std::vector<int64_t> taken = read_taken(files);
  const TrajectoryCheck found = check_trajectories(shards, taken);
  for (const auto& problems : {found.problems, check_step_sizes(files, taken, found),
                               check_sizes_of_all(shards, found, generated)}) {
    findings.insert(findings.end(), problems.begin(), problems.end());
  }
  for (const TorchFile* file : files) {
    std::ranges::move(check_schedule(*file), std::back_inserter(findings));
    const auto of_file = read_schedule(*file);
    known = known || of_file;
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

/// What this program's own export says of a step: the order of its samples, the columns that it
/// has, and datasets that slime has no column for.
struct OwnStep {
  std::map<uint64_t, size_t> order;
  std::set<std::string, std::less<>> fields;
  std::vector<format::Dataset> datasets;
};

std::map<int64_t, OwnStep> read_own_steps(const TorchFile& file, int64_t rollout) {
  const foreign::Tree& tree = file.tree();
  std::map<int64_t, OwnStep> out;
  const Value* steps = find_own(tree, file.root(), "steps");
  if (steps == nullptr || steps->kind != Kind::kList) return out;
  const foreign::Sequence& list = tree.sequence(*steps);
  for (size_t i = 0; i < list.size(); ++i) {
    const auto find = [&](const char* key) -> const Value& {
      const Value* value = list[i].kind == Kind::kDict ? tree.find(list[i], key) : nullptr;
      if (value != nullptr) return *value;
      throw Error(ErrorCode::kCorrupt, std::string("a step below `rlreplay` has no ") + key,
                  file.path());
    };
    const Value number = find("step");
    const auto order = foreign::Numbers::of(tree, find("order"));
    const Value fields = find("fields");
    if (number.kind != Kind::kInt || !order || !order->is_integer() || fields.kind != Kind::kList) {
      throw Error(ErrorCode::kCorrupt, "a step below `rlreplay` is not what an export writes",
                  file.path());
    }
    OwnStep& step = out[number.integer];
    for (size_t k = 0; k < order->size(); ++k) {
      step.order.emplace(static_cast<uint64_t>(order->integer(k)), k);
    }
    for (size_t k = 0; k < tree.sequence(fields).size(); ++k) {
      const Value name = tree.sequence(fields)[k];
      if (name.kind == Kind::kText) step.fields.emplace(tree.text(name));
    }
    step.datasets =
        read_own_datasets(tree, find("datasets"), StepId{rollout, number.integer}.group());
  }
  return out;
}

void sort_rows(const TrainBatch& batch, const OwnStep& own, std::vector<size_t>& rows) {
  const auto place = [&](size_t row) {
    const auto at = own.order.find(static_cast<uint64_t>(batch.sample_index[row]));
    return at == own.order.end() ? own.order.size() : at->second;
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](size_t a, size_t b) { return place(a) < place(b); });
}

/// Takes off what slime's columns say and the recorded step does not.
void keep_fields(const OwnStep& own, TrainData& data) {
  const auto drop = [&](std::string_view name, auto& field) {
    if (!own.fields.contains(name)) field.reset();
  };
  drop("tokens", data.tokens);
  drop("prompt_length", data.prompt_length);
  drop("rewards", data.rewards);
  drop("loss_mask", data.loss_mask);
  drop("trajectory_id", data.trajectory_id);
  drop("trajectory_tokens", data.trajectory_tokens);
  drop("scalars", data.scalars);
  for (const format::TokenColumnField& field : format::kTokenColumnFields) {
    drop(field.name, data.*field.column);
  }
}

}  // namespace

ImportedTrain import_train(std::span<const TorchFile* const> files,
                           std::optional<size_t> generated) {
  const TrainBatch batch = assemble_train(files);
  ImportedTrain made;
  made.rollout_id = batch.rollout_id;
  made.findings = batch.findings;
  made.cut = batch.cp_size > 1;
  made.layout = "dp " + std::to_string(batch.shards) + ", cp " + std::to_string(batch.cp_size) +
                ", " + std::to_string(batch.replicas) + (batch.replicas == 1 ? " copy" : " copies");
  const std::map<int64_t, int64_t> steps = schedule(files, batch, generated, made.findings);
  std::map<int64_t, OwnStep> own = read_own_steps(*files.front(), made.rollout_id);
  std::map<int64_t, std::vector<size_t>> rows;
  for (size_t i = 0; i < batch.size(); ++i) rows[steps.at(batch.sample_index[i])].push_back(i);
  std::map<int64_t, Place> places;
  for (auto& [step, of_step] : rows) {
    if (const auto order = own.find(step); order != own.end()) {
      sort_rows(batch, order->second, of_step);
    }
    for (size_t row = 0; row < of_step.size(); ++row) {
      places[batch.sample_index[of_step[row]]] = {step, row};
    }
  }
  const std::vector<int64_t> counted = read_batch_sizes(files);
  for (const auto& [step, of_step] : rows) {
    made.steps[step] = make_step(batch, of_step);
    const bool said = static_cast<size_t>(step) < counted.size();
    add_trajectories(batch, of_step,
                     said ? std::optional(counted[static_cast<size_t>(step)]) : std::nullopt,
                     *made.steps[step]);
  }
  for (auto& [step, of_own] : own) {
    if (!made.steps.contains(step)) continue;
    keep_fields(of_own, *made.steps[step]);
    made.own[step] = std::move(of_own.datasets);
  }
  for (const TorchFile* file : files) {
    made.replacements.push_back(replacements(*file, made, places));
    note_inputs(*file, made.with_inputs);
  }
  return made;
}

void check_train_file(const TorchFile& file) {
  const foreign::TrainShard shard(file);
  for (size_t row = 0; row < shard.indices().size(); ++row) {
    static_cast<void>(shard.token_count(row, "rollout_mask_sums"));
  }
  read_own_steps(file, 0);
}

}  // namespace rlreplay::replay
