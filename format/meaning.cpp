#include "format/meaning.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string>

#include "format/box_meaning.h"
#include "format/boxes.h"
#include "format/columns.h"
#include "format/held_bytes.h"
#include "src/base/ascii.h"
#include "src/base/utf8.h"
#include "src/base/words.h"

namespace rlreplay::format {
namespace {

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const size_t space = std::min(text.find(' '), text.size());
    out.push_back(text.substr(0, space));
    text.remove_prefix(std::min(space + 1, text.size()));
  }
  return out;
}

/// Datasets of which none means anything without the others.
const std::vector<std::string_view> kTogether[] = {
    {"events/tensors", "events/rank", "events/rows", "events/digest"},
    {"events/row_set", "events/row_set_offsets", "events/run_sample", "events/run_position",
     "events/run_count"},
    {"events/row_digest_offsets", "events/row_digest"},
    {"events/value_start", "events/value_count"},
    {"events/parent_offsets", "events/parents"},
    {"slice_offsets", "slices", "lengths"},
    {"call_offsets", "call_first", "call_length"},
};

/// A code of a table that ends at `most`, or that of what the table does not know.
template <uint8_t most>
bool is_code_to(uint8_t code) {
  return code <= most || code == 255;
}

/// Checks one group of a unit.
class GroupCheck {
 public:
  GroupCheck(const UnitReader& unit, std::vector<Problem>& problems)
      : unit_(unit), problems_(problems) {}

  void check_shape(const StoredDataset& dataset, const KnownDataset& row);
  void check_values(const StoredDataset& dataset, const KnownDataset& row);
  /// What concerns several datasets. `group` is the name of the group.
  void finish(const std::string& group, std::string_view kind);

 private:
  void report(const StoredDataset& dataset, const std::string& message) {
    problems_.push_back({Rule::kMeaning, unit_.record().path, dataset.path, message});
  }
  bool is_there(const std::string& group, std::string_view name) const {
    return unit_.find(group + "/" + std::string(name)) != nullptr;
  }
  bool says_of_calls(const std::string& group) const;
  [[nodiscard]] std::set<std::string> needed_beside(const std::string& group,
                                                    std::string_view kind) const;
  void expect_there(const std::string& group, std::string_view name) {
    if (is_there(group, name)) return;
    problems_.push_back(
        {Rule::kMeaning, unit_.record().path, group, std::string(name) + " is missing"});
  }
  void bind(const StoredDataset& dataset, std::string_view symbol, uint64_t extent);
  void check_offsets(const StoredDataset& dataset, const KnownDataset& row);
  void check_tokens(const StoredDataset& dataset);
  void check_names(const StoredDataset& dataset);
  void check_prompts(const StoredDataset& dataset);
  void check_slices(const std::string& group);
  void check_calls(const std::string& group);
  void check_coordinates(const StoredDataset& dataset);
  void check_ids(const StoredDataset& dataset);
  void check_text(const StoredDataset& dataset);
  /// Reports the first value that is not `sound`. `expected`: what it should be.
  template <class T, class Sound>
  void expect_all(const StoredDataset& dataset, const std::vector<T>& values, const Sound& sound,
                  const char* expected) {
    const auto odd = std::ranges::find_if_not(values, sound);
    if (odd == values.end()) return;
    report(dataset, "element " + std::to_string(odd - values.begin()) + " is " +
                        std::to_string(*odd) + ", expected " + expected);
  }
  template <class T>
  std::vector<T> values_of(const StoredDataset& dataset) const;

  const UnitReader& unit_;
  std::vector<Problem>& problems_;
  std::map<char, uint64_t> extents_;
  bool has_samples_ = false;
  std::vector<uint64_t> offsets_;  // of samples
  const StoredDataset* prompts_ = nullptr;
  const StoredDataset* slices_ = nullptr;
  const StoredDataset* calls_ = nullptr;
  std::vector<uint64_t> lengths_;  // of samples of which it holds slices
};

void GroupCheck::bind(const StoredDataset& dataset, std::string_view symbol, uint64_t extent) {
  if (is_digit(symbol.front())) {
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
    report(dataset, other_dtype(dataset.dtype, row.dtypes));
  }
  const auto symbols = words(row.shape);
  if (symbols.size() != dataset.shape.size()) return report(dataset, other_dimensions(row));
  for (size_t i = 0; i < symbols.size(); ++i) bind(dataset, symbols[i], dataset.shape[i]);
}

template <class T>
std::vector<T> GroupCheck::values_of(const StoredDataset& dataset) const {
  check_budget(unit_.record(), dataset.path, dataset.bytes);
  std::vector<T> values(dataset.bytes / sizeof(T));
  unit_.read(dataset, std::as_writable_bytes(std::span<T>(values)));
  return values;
}

void GroupCheck::check_offsets(const StoredDataset& dataset, const KnownDataset& row) {
  const auto offsets = values_of<uint64_t>(dataset);
  if (offsets.empty()) return;  // reported with the shape
  if (offsets.front() != 0) {
    return report(dataset, "offsets begin at " + std::to_string(offsets.front()) + ", expected 0");
  }
  if (const auto end = std::ranges::is_sorted_until(offsets); end != offsets.end()) {
    return report(dataset, "offsets do not ascend: element " +
                               std::to_string(end - offsets.begin()) + " is " +
                               std::to_string(*end) + ", behind " + std::to_string(*(end - 1)));
  }
  bind(dataset, {&row.total, 1}, offsets.back());
  if (row.name == "offsets") offsets_ = offsets;
}

void GroupCheck::check_tokens(const StoredDataset& dataset) {
  const auto natural = [](auto id) { return id >= 0; };
  constexpr char kExpected[] = "a token's id, which is not negative";
  if (dataset.dtype == DType::kI32) {
    expect_all(dataset, values_of<int32_t>(dataset), natural, kExpected);
  } else {
    expect_all(dataset, values_of<int64_t>(dataset), natural, kExpected);
  }
}

void GroupCheck::check_names(const StoredDataset& dataset) {
  const auto it = dataset.attributes.find("columns");
  const auto* names =
      it == dataset.attributes.end() ? nullptr : std::get_if<std::string>(&it->second);
  if (names == nullptr) return report(dataset, "its columns have no names");
  const auto lines = static_cast<uint64_t>(std::count(names->begin(), names->end(), '\n'));
  const uint64_t count = names->empty() ? 0 : lines + 1;
  if (count == dataset.shape.back()) return;
  report(dataset, "its last axis has " + counted(dataset.shape.back(), "place") +
                      ", and \"columns\" " + counted(count, "name"));
}

void GroupCheck::check_prompts(const StoredDataset& dataset) {
  const auto lengths = values_of<uint32_t>(dataset);
  if (lengths.size() + 1 != offsets_.size()) return;  // reported with the shapes
  for (size_t s = 0; s < lengths.size(); ++s) {
    const uint64_t whole = lengths_.empty() ? offsets_[s + 1] - offsets_[s] : lengths_[s];
    if (lengths[s] <= whole) continue;
    return report(dataset, "the prompt in row " + std::to_string(s) + " has " +
                               counted(lengths[s], "token") + ", and its sample " +
                               std::to_string(whole));
  }
}

/// Each sample's slices lie within it, and are as many tokens as it has here.
void GroupCheck::check_slices(const std::string& group) {
  const auto numbers_of = [&](const char* name) {
    const StoredDataset* dataset = unit_.find(group + "/" + name);
    const bool sound = dataset != nullptr && dataset->dtype == DType::kU64 && !dataset->base;
    return sound ? values_of<uint64_t>(*dataset) : std::vector<uint64_t>();
  };
  const auto slices = numbers_of("slices"), offsets = numbers_of("slice_offsets");
  auto lengths = numbers_of("lengths");
  if (offsets.size() != offsets_.size() || lengths.size() + 1 != offsets_.size() ||
      slices.size() != 2 * offsets.back() || !std::is_sorted(offsets.begin(), offsets.end())) {
    return;  // reported with the shapes
  }
  for (size_t s = 0; s < lengths.size(); ++s) {
    uint64_t stored = 0;
    bool sound = true;
    for (uint64_t i = offsets[s]; i < offsets[s + 1]; ++i) {
      sound = sound && lies_within({slices[2 * i], slices[2 * i + 1], lengths[s]}) &&
              !__builtin_add_overflow(stored, slices[2 * i + 1], &stored);
    }
    if (sound && stored == offsets_[s + 1] - offsets_[s]) continue;
    return report(*slices_, "the slices of the sample in row " + std::to_string(s) +
                                (sound ? " are " + counted(stored, "token") : " do not lie in it") +
                                ", expected " + std::to_string(offsets_[s + 1] - offsets_[s]) +
                                " of its " + std::to_string(lengths[s]));
  }
  lengths_ = std::move(lengths);
}

void GroupCheck::check_calls(const std::string& group) {
  const StoredDataset* lengths = unit_.find(group + "/call_length");
  const StoredDataset* of = unit_.find(group + "/call_offsets");
  if (lengths == nullptr || of == nullptr || lengths->dtype != DType::kU32 ||
      of->dtype != DType::kU64 || lengths->base || of->base) {
    return;  // reported already
  }
  const auto first = values_of<uint32_t>(*calls_), length = values_of<uint32_t>(*lengths);
  const auto offsets = values_of<uint64_t>(*of);
  if (offsets.size() != offsets_.size() || first.size() != length.size() || offsets.empty() ||
      offsets.back() != first.size() || !std::is_sorted(offsets.begin(), offsets.end())) {
    return;  // reported with the shapes
  }
  for (size_t s = 0; s + 1 < offsets.size(); ++s) {
    uint64_t next = 0;
    bool sound = true;
    for (uint64_t c = offsets[s]; c < offsets[s + 1]; ++c) {
      sound = sound && first[c] >= next;
      next = uint64_t{first[c]} + length[c];
    }
    if (sound && next <= offsets_[s + 1] - offsets_[s]) continue;
    return report(
        *calls_,
        "the calls of the sample in row " + std::to_string(s) +
            (sound ? " end at token " + std::to_string(next) : " do not lie one after the other") +
            ", expected within its " + counted(offsets_[s + 1] - offsets_[s], "token"));
  }
}

void GroupCheck::check_coordinates(const StoredDataset& dataset) {
  const auto numbers = values_of<uint32_t>(dataset);
  for (size_t i = 0; i + 1 < numbers.size(); i += 2) {
    if (numbers[i] < numbers[i + 1]) continue;
    return report(dataset, "row " + std::to_string(i / 2) + " is rank " +
                               std::to_string(numbers[i]) + " of " +
                               std::to_string(numbers[i + 1]));
  }
}

void GroupCheck::check_text(const StoredDataset& dataset) {
  const auto bytes = values_of<uint8_t>(dataset);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const Utf8Fault fault = find_utf8_fault(text, Surrogates::kAllowed);
  if (fault.length == 0) return;
  report(dataset, "its texts are not UTF-8 at byte " + std::to_string(fault.offset));
}

/// A rollout's ascend; a rank's stand in the order in which they were packed.
void GroupCheck::check_ids(const StoredDataset& dataset) {
  auto ids = values_of<uint64_t>(dataset);
  const bool packed = kind_of(unit_.record().path) == "train";
  if (packed) std::ranges::sort(ids);
  if (const auto twice = std::ranges::adjacent_find(ids); twice != ids.end()) {
    return report(dataset, "sample " + std::to_string(*twice) + " is there twice");
  }
  if (const auto end = std::ranges::is_sorted_until(ids); end != ids.end()) {
    report(dataset, "the ids of samples do not ascend: " + std::to_string(*end) +
                        " stands behind " + std::to_string(*(end - 1)));
  }
}

void GroupCheck::check_values(const StoredDataset& dataset, const KnownDataset& row) {
  has_samples_ =
      has_samples_ || (row.name.find('/') == row.name.npos && row.values != Values::kCoordinates);
  const auto dtypes = words(row.dtypes);
  const bool readable =
      std::find(dtypes.begin(), dtypes.end(), to_string(dataset.dtype)) != dtypes.end();
  if (dataset.base || !readable) return;
  switch (row.values) {
    case Values::kAny:
      return;
    case Values::kSampleIds:
      return check_ids(dataset);
    case Values::kOffsets:
      return check_offsets(dataset, row);
    case Values::kTokens:
      return check_tokens(dataset);
    case Values::kNamed:
      return check_names(dataset);
    case Values::kRoles:
      return expect_all(dataset, values_of<uint8_t>(dataset), is_code_to<3>, "0 to 3, or 255");
    case Values::kTruth:
      return expect_all(dataset, values_of<uint8_t>(dataset), is_code_to<1>, "0, 1 or 255");
    case Values::kCalls:
      calls_ = &dataset;
      return;
    case Values::kCoordinates:
      return check_coordinates(dataset);
    case Values::kSlices:
      slices_ = &dataset;
      return;
    case Values::kPromptLengths:
      prompts_ = &dataset;
      return;
    case Values::kMask:
      return expect_all(
          dataset, values_of<uint8_t>(dataset), [](uint8_t m) { return m < 2; }, "0 or 1");
    case Values::kFinish:
      return expect_all(dataset, values_of<uint8_t>(dataset), is_code_to<3>, "0 to 3, or 255");
    case Values::kText:
      return check_text(dataset);
  }
}

/// Whether there is a column of calls, each of which means nothing without them.
bool GroupCheck::says_of_calls(const std::string& group) const {
  return std::ranges::any_of(known_datasets(), [&](const KnownDataset& row) {
    return row.kind == "rollout" && row.part_of == "calls" && is_there(group, row.name);
  });
}

/// The datasets without which others that are there mean nothing: the offsets of their own, which
/// are not those of tokens or of calls.
std::set<std::string> GroupCheck::needed_beside(const std::string& group,
                                                std::string_view kind) const {
  std::set<std::string> out;
  for (const KnownDataset& row : known_datasets()) {
    if (row.kind != kind || row.part_of == "calls" || row.shape.empty()) continue;
    if (row.name.starts_with("events/") || !is_there(group, row.name)) continue;
    const std::string offsets = offsets_for(kind, row.shape.front());
    if (!offsets.empty() && offsets != "offsets") out.insert(offsets);
    if (row.name == "nucleus") out.insert("nucleus_size");
  }
  return out;
}

void GroupCheck::finish(const std::string& group, std::string_view kind) {
  if (slices_ != nullptr) check_slices(group);
  if (calls_ != nullptr) check_calls(group);
  if (prompts_ != nullptr) check_prompts(*prompts_);
  for (const char* name : {"sample_id", "offsets", "tokens"}) {
    const bool needed =
        kind == "rollout" || (kind == "train" && std::string_view(name) != "tokens");
    if (has_samples_ && needed) expect_there(group, name);
  }
  if (kind != "rollout" && kind != "train") return;
  for (const std::string& name : needed_beside(group, kind)) expect_there(group, name);
  for (const auto& names : kTogether) {
    if (names.front() == (kind == "rollout" ? "slice_offsets" : "call_offsets")) continue;
    const bool any = std::ranges::any_of(names, [&](auto name) { return is_there(group, name); });
    if (!any && !(names.front() == "call_offsets" && says_of_calls(group))) continue;
    for (const std::string_view name : names) expect_there(group, name);
  }
}

}  // namespace

void check_meaning(const UnitReader& unit, std::vector<Problem>& problems) {
  std::map<std::string, GroupCheck> groups;
  const std::string_view kind = kind_of(unit.record().path);
  for (const StoredDataset& dataset : unit.datasets()) {
    const size_t slash = dataset.path.find('/');
    const std::string_view name = std::string_view(dataset.path).substr(slash + 1);
    check_boxes(unit, name, dataset, problems);
    const KnownDataset* row = find_known(kind, name);
    if (row == nullptr) continue;
    GroupCheck& group =
        groups.try_emplace(dataset.path.substr(0, slash), unit, problems).first->second;
    group.check_shape(dataset, *row);
    group.check_values(dataset, *row);
  }
  for (auto& [name, group] : groups) group.finish(name, kind);
}

}  // namespace rlreplay::format
