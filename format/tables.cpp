#include "format/tables.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string>

#include "format/rule.h"

namespace rlreplay::format {
namespace {

constexpr KnownDataset kTable[] = {
    {"rollout", "sample_id", "u64", "S"},
    {"rollout", "group_id", "u64", "S"},
    {"rollout", "offsets", "u64", "S+1", Values::kOffsets, 'T'},
    {"rollout", "prompt_length", "u32", "S"},
    {"rollout", "tokens", "i32 i64", "T"},
    {"rollout", "log_probs", "f32 f64", "T"},
    {"rollout", "loss_mask", "u8", "T", Values::kMask},
    {"rollout", "rewards", "f64", "S"},
    {"rollout", "reward_components", "f64", "S K"},
    {"rollout", "finish", "u8", "S"},
    {"rollout", "version_offsets", "u64", "S+1", Values::kOffsets, 'V'},
    {"rollout", "versions", "i64", "V"},
    {"rollout", "version_starts", "u32", "V"},
    {"rollout", "prompt_text_offsets", "u64", "S+1", Values::kOffsets, 'P'},
    {"rollout", "prompt_text", "u8", "P"},
    {"rollout", "response_text_offsets", "u64", "S+1", Values::kOffsets, 'R'},
    {"rollout", "response_text", "u8", "R"},
    {"rollout", "label_text_offsets", "u64", "S+1", Values::kOffsets, 'L'},
    {"rollout", "label_text", "u8", "L"},
    {"rollout", "experts", "u8 u16", "T M E"},
    {"train", "sample_id", "u64", "S"},
    {"train", "offsets", "u64", "S+1", Values::kOffsets, 'T'},
    {"train", "tokens", "i32", "T"},
    {"train", "prompt_length", "u32", "S"},
    {"train", "micro_batch", "u32", "S"},
    {"train", "loss_mask", "u8", "T", Values::kMask},
    {"train", "rewards", "f64", "S"},
    {"train", "token_weights", "f64", "T"},
    {"train", "log_probs", "f32 f64", "T"},
    {"train", "old_log_probs", "f32 f64", "T"},
    {"train", "ref_log_probs", "f32 f64", "T"},
    {"train", "teacher_log_probs", "f32 f64", "T"},
    {"train", "rollout_log_probs", "f32 f64", "T"},
    {"train", "entropy", "f32 f64", "T"},
    {"train", "ref_entropy", "f32 f64", "T"},
    {"train", "advantages", "f32 f64", "T"},
    {"train", "returns", "f32 f64", "T"},
    {"train", "values", "f32 f64", "T"},
    {"train", "kl", "f32 f64", "T"},
    {"train", "reverse_kl", "f32 f64", "T"},
    {"train", "scalars", "f64", "N"},
    {"train", "events/tensors", "u8", "x"},
    {"train", "events/rank", "u32", "e"},
    {"train", "events/rows", "u64", "e"},
    {"train", "events/digest", "u8", "e 16"},
    {"train", "events/nonfinite", "u64", "e 4"},
    {"train", "events/stats", "f64", "e 4"},
    {"train", "events/row_set", "i32", "e"},
    {"train", "events/row_set_offsets", "u64", "p+1", Values::kOffsets, 'r'},
    {"train", "events/run_sample", "u64", "r"},
    {"train", "events/run_position", "u64", "r"},
    {"train", "events/run_count", "u64", "r"},
    {"train", "events/row_digest_offsets", "u64", "e+1", Values::kOffsets, 'b'},
    {"train", "events/row_digest", "u8", "b 16"},
    {"train", "events/value_start", "u64", "e"},
    {"train", "events/value_count", "u64", "e"},
    {"train", "events/values_f32", "f32", "f"},
    {"train", "events/values_f64", "f64", "d"},
    {"train", "events/values_i32", "i32", "i"},
    {"train", "events/values_i64", "i64", "l"},
};

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const size_t space = std::min(text.find(' '), text.size());
    out.push_back(text.substr(0, space));
    text.remove_prefix(std::min(space + 1, text.size()));
  }
  return out;
}

/// Which samples have a value: NAME_present of any column NAME.
constexpr KnownDataset kPresence = {"", "", "u8", "S", Values::kMask};

/// The events of the rollout phase have the same tables in a rollout unit.
bool applies(const KnownDataset& known, std::string_view kind, std::string_view name) {
  const bool events = name.starts_with("events/") && (kind == "rollout" || kind == "train");
  return known.name == name && (known.kind == kind || events);
}

const KnownDataset* known(std::string_view kind, std::string_view name) {
  const bool samples = kind == "rollout" || kind == "train";
  if (samples && name.ends_with("_present")) return &kPresence;
  const auto it = std::find_if(std::begin(kTable), std::end(kTable),
                               [&](const auto& k) { return applies(k, kind, name); });
  return it == std::end(kTable) ? nullptr : it;
}

/// Checks one group of a unit.
class GroupCheck {
 public:
  GroupCheck(const UnitReader& unit, std::vector<Problem>& problems)
      : unit_(unit), problems_(problems) {}

  void check_shape(const StoredDataset& dataset, const KnownDataset& row);
  void check_values(const StoredDataset& dataset, const KnownDataset& row);

 private:
  void report(const StoredDataset& dataset, const std::string& message) {
    problems_.push_back({Rule::kMeaning, unit_.record().path, dataset.path, message});
  }
  void bind(const StoredDataset& dataset, std::string_view symbol, uint64_t extent);
  void check_offsets(const StoredDataset& dataset, const KnownDataset& row,
                     std::span<const std::byte> bytes);

  const UnitReader& unit_;
  std::vector<Problem>& problems_;
  std::map<char, uint64_t> extents_;
};

void GroupCheck::bind(const StoredDataset& dataset, std::string_view symbol, uint64_t extent) {
  if (symbol.front() >= '0' && symbol.front() <= '9') {
    if (std::to_string(extent) != symbol) {
      report(dataset, "a dimension is " + std::to_string(extent) + ", not " + std::string(symbol));
    }
    return;
  }
  if (symbol.ends_with("+1")) {
    if (extent == 0) return report(dataset, "offsets have at least one element");
    --extent;
  }
  const auto [it, fresh] = extents_.emplace(symbol.front(), extent);
  if (!fresh && it->second != extent) {
    report(dataset, std::string("its length does not agree with the others: ") + symbol.front() +
                        " is " + std::to_string(it->second) + " and " + std::to_string(extent));
  }
}

void GroupCheck::check_shape(const StoredDataset& dataset, const KnownDataset& row) {
  const auto dtypes = words(row.dtypes);
  if (std::find(dtypes.begin(), dtypes.end(), to_string(dataset.dtype)) == dtypes.end()) {
    report(dataset, "its dtype is " + std::string(to_string(dataset.dtype)) + ", not " +
                        std::string(row.dtypes));
  }
  const auto symbols = words(row.shape);
  if (symbols.size() != dataset.shape.size()) {
    return report(dataset,
                  "it has another number of dimensions than [" + std::string(row.shape) + "]");
  }
  for (size_t i = 0; i < symbols.size(); ++i) bind(dataset, symbols[i], dataset.shape[i]);
}

void GroupCheck::check_offsets(const StoredDataset& dataset, const KnownDataset& row,
                               std::span<const std::byte> bytes) {
  std::vector<uint64_t> offsets(bytes.size() / sizeof(uint64_t));
  if (offsets.empty()) return;  // reported with the shape
  std::memcpy(offsets.data(), bytes.data(), bytes.size());
  if (offsets.front() != 0 || !std::is_sorted(offsets.begin(), offsets.end())) {
    return report(dataset, "offsets do not ascend from 0");
  }
  bind(dataset, {&row.total, 1}, offsets.back());
}

void GroupCheck::check_values(const StoredDataset& dataset, const KnownDataset& row) {
  if (row.values == Values::kAny || dataset.base ||
      dataset.dtype != *dtype_from_string(row.dtypes)) {
    return;
  }
  Buffer<std::byte> bytes(dataset.bytes);
  unit_.read(dataset, {bytes.data(), bytes.size()});
  if (row.values == Values::kOffsets) {
    check_offsets(dataset, row, {bytes.data(), bytes.size()});
  } else if (std::any_of(bytes.data(), bytes.data() + bytes.size(),
                         [](std::byte b) { return std::to_integer<int>(b) > 1; })) {
    report(dataset, "a mask holds values other than 0 and 1");
  }
}

}  // namespace

std::span<const KnownDataset> known_datasets() { return kTable; }

void check_meaning(const UnitReader& unit, std::vector<Problem>& problems) {
  std::map<std::string, GroupCheck> groups;
  const std::string_view kind = kind_of(unit.record().path);
  for (const StoredDataset& dataset : unit.datasets()) {
    const size_t slash = dataset.path.find('/');
    const KnownDataset* row = known(kind, std::string_view(dataset.path).substr(slash + 1));
    if (row == nullptr) continue;
    GroupCheck& group =
        groups.try_emplace(dataset.path.substr(0, slash), unit, problems).first->second;
    group.check_shape(dataset, *row);
    group.check_values(dataset, *row);
  }
}

}  // namespace rlreplay::format
