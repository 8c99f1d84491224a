#include "src/replay/exchange/kept_file.h"

#include <algorithm>
#include <cstring>
#include <deque>

#include "format/foreign/pickle_machine.h"
#include "format/foreign/tensor_content.h"
#include "format/foreign/tree_check.h"
#include "format/group_io.h"
#include "format/group_name.h"
#include "format/rule.h"
#include "format/unit.h"
#include "format/whole_dataset.h"
#include "src/base/ascii.h"
#include "src/base/dtype.h"
#include "src/base/number_text.h"
#include "src/base/terminal.h"
#include "src/base/words.h"
#include "src/replay/record/parse_step.h"

namespace rlreplay::replay {

using format::Dataset;
using format::StoredDataset;

namespace {

constexpr size_t kMaxName = 90;

/// A name of SPEC.md's grammar.
std::string unit_name(std::string_view text) {
  std::string name;
  for (const char c : text) {
    const bool plain = is_word_character(c) || c == '-' || (c == '.' && !name.empty());
    name += plain ? c : '_';
  }
  if (name.size() <= kMaxName) return name.empty() ? "_" : name;
  return name.substr(0, kMaxName - 33) + "-" + hash_of(text).hex();
}

/// No part of it is empty, leads elsewhere or is longer than a name may be.
bool is_plain_path(std::string_view path) {
  constexpr size_t kMostBytes = 255;
  if (terminal_text(path) != path || path.find_first_of("\n\t") != path.npos) return false;
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string_view part = path.substr(at, end - at);
    if (part.empty() || part == "." || part == ".." || part.size() > kMostBytes) return false;
    at = end + 1;
  }
  return true;
}

/// Serves the parts that a kept pickle refers to.
class Source : public foreign::RecordSource {
 public:
  Source(const std::vector<uint64_t>& offsets, foreign::Bytes records, const NativeData& native,
         std::deque<std::vector<uint8_t>>& made)
      : offsets_(offsets), records_(records), native_(native), made_(made) {}

  std::optional<foreign::Bytes> record(std::string_view key) const override {
    const size_t slash = key.rfind('/');
    if (slash != key.npos) return tensor(key.substr(0, slash), key.substr(slash + 1));
    const auto i = parse_number<size_t>(key);
    if (!i || *i >= offsets_.size() || *i + 1 == offsets_.size()) return std::nullopt;
    return records_.subspan(offsets_[*i], offsets_[*i + 1] - offsets_[*i]);
  }

  std::optional<foreign::Value> value(std::string_view what, std::string_view place,
                                      foreign::Tree& tree) const override {
    const std::optional<Cell> cell = native_.find(place);
    if (!cell) return std::nullopt;
    const bool text = std::holds_alternative<std::string_view>(*cell);
    return text == (what == "text") ? std::optional(add_cell(tree, *cell)) : std::nullopt;
  }

 private:
  std::optional<foreign::Bytes> tensor(std::string_view place, std::string_view dtype_name) const {
    const std::optional<Cell> cell = native_.find(place);
    const auto dtype = foreign::dtype_named(dtype_name);
    if (!cell || !dtype) return std::nullopt;
    std::optional<std::vector<uint8_t>> bytes = tensor_bytes(*cell, *dtype);
    if (!bytes) return std::nullopt;
    return made_.emplace_back(std::move(*bytes));
  }

  const std::vector<uint64_t>& offsets_;
  foreign::Bytes records_;
  const NativeData& native_;
  std::deque<std::vector<uint8_t>>& made_;
};

template <class T>
std::vector<T> read(const format::DumpReader& dump, const format::UnitReader& unit,
                    const std::string& group, const char* name) {
  const format::GroupReader reader(dump, unit, group);
  const StoredDataset* const dataset = &reader.needed(name);
  reader.check_form(*dataset, format::dtype_for<T>());
  check_whole(unit.record(), *dataset);
  std::vector<T> values(dataset->bytes / sizeof(T));
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(values));
  if (!dataset->base) {
    unit.read(*dataset, bytes);
  } else if (!values.empty()) {
    std::memcpy(values.data(), dump.read(unit, *dataset).data(), bytes.size());
  }
  return values;
}

std::string group_of(const format::UnitReader& unit) {
  return unit.record().groups.empty() ? "" : unit.record().groups.front();
}

}  // namespace

std::string kept_path(const std::string& vendor, const std::string& file) {
  const size_t dot = file.rfind('.');
  const size_t slash = file.rfind('/');
  const bool suffix = dot != file.npos && (slash == file.npos || dot > slash);
  const std::string stem = suffix ? file.substr(0, dot) : file;
  if (slash == file.npos) return "x-" + vendor + "/" + unit_name(stem) + ".h5";
  std::string folder = stem.substr(0, slash);
  std::replace(folder.begin(), folder.end(), '/', '.');
  return "x-" + vendor + "/" + unit_name(folder) + "/" + unit_name(stem.substr(slash + 1)) + ".h5";
}

bool keeps_evaluation(std::string_view unit) {
  return unit.starts_with("x-") && unit.substr(unit.rfind('/') + 1).starts_with("eval_");
}

std::string kept_name(const format::UnitReader& unit) {
  const std::string path = group_of(unit) + "/pickle";
  if (const StoredDataset* pickle = unit.find(path)) {
    const auto it = pickle->attributes.find("file");
    if (it != pickle->attributes.end() && std::holds_alternative<std::string>(it->second)) {
      return std::get<std::string>(it->second);
    }
  }
  throw format::FormatError(format::Rule::kMeaning, "it does not say which file it was",
                            unit.record().path, path);
}

void check_kept_name(const format::UnitReader& unit) {
  const std::string name = kept_name(unit), &path = unit.record().path;
  if (!is_plain_path(name)) {
    throw Error(ErrorCode::kCorrupt, "the name of the file that it keeps is no plain path", path);
  }
  if (kept_path(std::string(format::kind_of(path).substr(2)), name) != path) {
    throw Error(ErrorCode::kCorrupt, "it keeps a file whose name is that of another unit", path);
  }
}

std::vector<Dataset> keep_file(const foreign::TorchFile& file,
                               const foreign::Replacements& replacements, const std::string& group,
                               const std::string& name) {
  if (!is_plain_path(name)) {
    throw Error(ErrorCode::kUnsupported,
                "the name of this file holds what no export can write again (a tab, a line feed, "
                "bytes that are no UTF-8, a part of more than 255 bytes): rename it",
                file.path());
  }
  const foreign::Tree& tree = file.tree();
  std::vector<uint8_t> pickle;
  const auto take = [&](foreign::Bytes piece) {
    pickle.insert(pickle.end(), piece.begin(), piece.end());
    file.release();  // a text brings what lies around it into memory
  };
  foreign::PickleWriter writer(tree, take, replacements);
  writer.write(file.root());
  std::vector<uint64_t> offsets = {0};
  std::vector<uint8_t> records;
  uint64_t total = 0;
  for (const foreign::Value value : writer.records()) {
    const foreign::Tensor& tensor = tree.tensor(value);
    total += static_cast<uint64_t>(tensor.count * foreign::item_size(tensor.dtype));
  }
  records.reserve(total);
  for (const foreign::Value value : writer.records()) {
    for_each_run(tree, tree.tensor(value), [&](foreign::Bytes run) {
      records.insert(records.end(), run.begin(), run.end());
    });
    offsets.push_back(records.size());
  }
  std::vector<Dataset> datasets;
  const auto add = [&](const char* dataset, DType dtype, auto values) {
    const uint64_t size = values.size();
    datasets.push_back(format::dataset_of(group + "/" + dataset, dtype, {size}, std::move(values)));
  };
  add("pickle", DType::kU8, std::move(pickle));
  datasets.back().attributes["file"] = name;
  add("records", DType::kU8, std::move(records));
  add("record_offsets", DType::kU64, std::move(offsets));
  return datasets;
}

uint64_t content_bytes(const format::DumpReader& dump) {
  uint64_t bytes = 0;
  for (const format::UnitRecord& unit : dump.units()) bytes += unit.logical;
  return bytes;
}

NativeReader::NativeReader(const format::DumpReader& dump) : dump_(dump) {
  for (const format::UnitRecord& unit : dump.units()) {
    if (format::kind_of(unit.path) != "train") continue;
    for (const std::string& group : unit.groups) {
      if (const auto step = parse_step(group)) trains_[step->rollout].insert(group);
    }
  }
}

NativeData NativeReader::read(int64_t rollout) const {
  NativeData data;
  format::HeldBytes held;
  if (auto found = find_rollout_data(dump_, rollout, &held)) {
    data.rollouts.emplace("rollout/" + std::to_string(rollout), std::move(*found));
  }
  const auto steps = trains_.find(rollout);
  if (steps == trains_.end()) return data;
  for (const std::string& group : steps->second) {
    const auto units = dump_.find("train", group);
    if (units.size() > 1) continue;  // whose rows a place means cannot be known
    const format::UnitReader unit = dump_.open_unit(*units.at(0));
    data.trains.emplace("train/" + group, read_train_data(dump_, unit, group, &held));
  }
  return data;
}

const NativeData& NativeReader::of(const format::UnitReader& unit) {
  const std::string group = group_of(unit);
  const std::optional<int64_t> id = format::parse_rollout(group);
  if (!id || id != rollout_) data_ = id ? read(*id) : NativeData();
  rollout_ = id;
  if (id && unit.find(group + "/tokens") != nullptr) {
    data_.rollouts["eval/" + group] = read_rollout_data(dump_, unit, group);
  }
  return data_;
}

struct RestoredFile::State {
  foreign::Tree tree;
  std::vector<uint8_t> pickle;
  std::vector<uint8_t> records;
  std::vector<uint64_t> offsets;
  std::deque<std::vector<uint8_t>> made;
};

RestoredFile::RestoredFile(const format::DumpReader& dump, const format::UnitReader& unit,
                           const NativeData& native, uint64_t limit)
    : state_(std::make_unique<State>()) {
  const std::string group = group_of(unit);
  const std::string path = group + "/pickle";
  state_->pickle = read<uint8_t>(dump, unit, group, "pickle");
  state_->records = read<uint8_t>(dump, unit, group, "records");
  state_->offsets = read<uint64_t>(dump, unit, group, "record_offsets");
  const auto corrupt = [&](const std::string& message) {
    throw format::FormatError(format::Rule::kMeaning, message, unit.record().path, path);
  };
  const auto& offsets = state_->offsets;
  const bool sound = !offsets.empty() && offsets.front() == 0 &&
                     offsets.back() == state_->records.size() &&
                     std::is_sorted(offsets.begin(), offsets.end());
  if (!sound) {
    corrupt(counted(offsets.size(), "offset") +
            " of its records, expected ones that ascend from 0 to " +
            std::to_string(state_->records.size()));
  }
  name_ = kept_name(unit);
  const Source source(state_->offsets, state_->records, native, state_->made);
  // What other units of the dump hold is content too: it is what bounds the tree.
  Budget budget(limit);
  try {
    state_->tree = foreign::Tree(&budget);
    root_ = foreign::PickleMachine(state_->pickle, state_->tree, source).run();
    static_cast<void>(foreign::check_tree(state_->tree, root_, limit));
    state_->tree.release_budget();
  } catch (const Error& error) {
    throw error.at(unit.record().path + ": " + path);
  }
}

RestoredFile::~RestoredFile() = default;
RestoredFile::RestoredFile(RestoredFile&&) noexcept = default;

foreign::TorchFile RestoredFile::take_file() { return {std::move(state_->tree), root_, name_}; }

foreign::Tree& RestoredFile::tree() { return state_->tree; }

}  // namespace rlreplay::replay
