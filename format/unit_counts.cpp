#include "format/unit_counts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>

#include "format/canonical.h"
#include "src/base/number_text.h"
#include "src/base/utf8.h"

namespace rlreplay::format {
namespace {

constexpr std::array<std::string_view, 10> kCounted = {
    "sample_id", "offsets",  "prompt_length", "loss_mask", "log_probs",
    "rewards",   "group_id", "finish",        "versions",  "scalars"};
constexpr std::string_view kPresent = "_present";

/// The elements of a dataset of one type; nothing where it is absent or of another.
template <class T>
std::optional<std::vector<T>> read_values(const CountedTables& tables, std::string_view name,
                                          DType dtype) {
  const auto at = tables.find(name);
  if (at == tables.end() || at->second.dtype != dtype) return std::nullopt;
  std::vector<T> out(at->second.bytes.size() / sizeof(T));
  if (!out.empty()) std::memcpy(out.data(), at->second.bytes.data(), out.size() * sizeof(T));
  return out;
}

/// Floats of any width as binary64.
std::optional<std::vector<double>> read_floats(const CountedTables& tables, std::string_view name) {
  if (auto wide = read_values<double>(tables, name, DType::kF64)) return wide;
  const auto narrow = read_values<float>(tables, name, DType::kF32);
  if (!narrow) return std::nullopt;
  return std::vector<double>(narrow->begin(), narrow->end());
}

/// A mean, whose sum is taken in the order of `add`.
class Mean {
 public:
  void add(double value) {
    sum_ += value;
    ++count_;
  }
  void put(JsonObject& into, const char* name) const {
    if (count_ > 0) into.text(name, decimal(sum_ / static_cast<double>(count_)));
  }
  static std::string decimal(double value) { return std::isnan(value) ? "nan" : shortest(value); }

 private:
  double sum_ = 0;
  uint64_t count_ = 0;
};

/// The samples of a group, where their ids and offsets are sound.
class Samples {
 public:
  static std::optional<Samples> of(const CountedTables& tables) {
    const auto ids = read_values<uint64_t>(tables, "sample_id", DType::kU64);
    auto offsets = read_values<uint64_t>(tables, "offsets", DType::kU64);
    if (!ids || !offsets || offsets->size() != ids->size() + 1 || offsets->front() != 0 ||
        !std::ranges::is_sorted(*offsets)) {
      return std::nullopt;
    }
    Samples out(tables);
    out.offsets_ = std::move(*offsets);
    return out;
  }

  size_t size() const { return offsets_.size() - 1; }
  uint64_t tokens() const { return offsets_.back(); }
  uint64_t begin(size_t sample) const { return offsets_[sample]; }
  uint64_t end(size_t sample) const { return offsets_[sample + 1]; }

  /// A value a sample or, `by_token`, a token, of which there are as many.
  template <class T>
  std::optional<std::vector<T>> column(std::string_view name, DType dtype, bool by_token) const {
    auto values = read_values<T>(*tables_, name, dtype);
    if (!values || values->size() != (by_token ? tokens() : size())) return std::nullopt;
    return values;
  }
  std::optional<std::vector<double>> floats(std::string_view name, bool by_token) const {
    auto values = read_floats(*tables_, name);
    if (!values || values->size() != (by_token ? tokens() : size())) return std::nullopt;
    return values;
  }
  /// Which samples have a value of a column.
  std::vector<uint8_t> presence(std::string_view name) const {
    const auto given =
        column<uint8_t>(std::string(name) + std::string(kPresent), DType::kU8, false);
    return given ? *given : std::vector<uint8_t>(size(), 1);
  }

 private:
  explicit Samples(const CountedTables& tables) : tables_(&tables) {}

  const CountedTables* tables_;
  std::vector<uint64_t> offsets_;
};

void put_tokens(const Samples& samples, JsonObject& into) {
  const auto prompts = samples.column<uint32_t>("prompt_length", DType::kU32, false);
  const auto mask = samples.column<uint8_t>("loss_mask", DType::kU8, true);
  const auto log_probs = samples.floats("log_probs", true);
  const auto rewards = samples.floats("rewards", false);
  const auto masks = samples.presence("loss_mask"), floats = samples.presence("log_probs"),
             rewarded = samples.presence("rewards");
  uint64_t responses = 0, longest = 0, masked = 0;
  Mean reward, log_prob;
  for (size_t s = 0; s < samples.size(); ++s) {
    const uint64_t length = samples.end(s) - samples.begin(s);
    const uint64_t prompt = std::min<uint64_t>(prompts ? (*prompts)[s] : 0, length);
    responses += length - prompt;
    longest = std::max(longest, length - prompt);
    if (rewards && rewarded[s] != 0) reward.add((*rewards)[s]);
    for (uint64_t t = samples.begin(s) + prompt; t < samples.end(s); ++t) {
      const bool out = mask && masks[s] != 0 && (*mask)[t] == 0;
      masked += out;
      if (!out && log_probs && floats[s] != 0) log_prob.add((*log_probs)[t]);
    }
  }
  into.number("response_tokens", responses).number("longest_response", longest);
  into.number("masked_tokens", masked);
  reward.put(into, "reward_mean");
  log_prob.put(into, "log_prob_mean");
}

void put_rollout(const Samples& samples, const CountedTables& tables, JsonObject& into) {
  put_tokens(samples, into);
  if (const auto groups = samples.column<uint64_t>("group_id", DType::kU64, false)) {
    const auto grouped = samples.presence("group_id");
    std::set<uint64_t> seen;
    for (size_t s = 0; s < samples.size(); ++s) {
      if (grouped[s] != 0) seen.insert((*groups)[s]);
    }
    into.number("groups", seen.size());
  }
  if (const auto finish = samples.column<uint8_t>("finish", DType::kU8, false)) {
    std::array<uint64_t, 5> counts = {};
    for (const uint8_t code : *finish) ++counts[std::min<size_t>(code, 4)];
    std::vector<std::string> texts;
    for (const uint64_t count : counts) texts.push_back(std::to_string(count));
    into.json("finish", json_array(texts));
  }
  if (const auto versions = read_values<int64_t>(tables, "versions", DType::kI64);
      versions && !versions->empty()) {
    const auto [low, high] = std::ranges::minmax(*versions);
    into.json("versions", json_array({std::to_string(low), std::to_string(high)}));
  }
}

/// The numbers of a step in their order: name and value.
void put_scalars(const CountedTables& tables, JsonObject& into) {
  const auto values = read_values<double>(tables, "scalars", DType::kF64);
  const auto at = tables.find("scalars");
  if (!values || at == tables.end()) return;
  std::string_view names = at->second.columns;
  std::vector<std::string> pairs;
  while (!names.empty()) {
    const size_t end = std::min(names.find('\n'), names.size());
    if (pairs.size() == values->size()) return;  // more names than numbers
    if (!is_utf8(names.substr(0, end), Surrogates::kRefused)) return;
    pairs.push_back("[" + json_text(names.substr(0, end)) + ",\"" +
                    Mean::decimal((*values)[pairs.size()]) + "\"]");
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  if (pairs.size() == values->size()) into.json("scalars", json_array(pairs));
}

uint64_t count_of(std::span<const std::byte> bytes, auto is_nonfinite, auto bits) {
  uint64_t count = 0;
  for (size_t at = 0; at + sizeof bits <= bytes.size(); at += sizeof bits) {
    std::memcpy(&bits, bytes.data() + at, sizeof bits);
    count += is_nonfinite(bits);
  }
  return count;
}

}  // namespace

bool is_counted(std::string_view name) {
  if (name.ends_with(kPresent)) name.remove_suffix(kPresent.size());
  return std::ranges::find(kCounted, name) != kCounted.end();
}

bool counts_nonfinite(std::string_view name) { return !name.starts_with("events/"); }

uint64_t count_nonfinite(DType dtype, std::span<const std::byte> bytes) {
  // All bits of the exponent are set.
  const auto all_set = [](auto mask) {
    return [mask](auto bits) { return (bits & mask) == mask; };
  };
  switch (dtype) {
    case DType::kF64:
      return count_of(bytes, all_set(uint64_t{0x7ff} << 52), uint64_t{});
    case DType::kF32:
      return count_of(bytes, all_set(uint32_t{0xff} << 23), uint32_t{});
    case DType::kBF16:
      return count_of(bytes, all_set(uint16_t{0x7f80}), uint16_t{});
    case DType::kF16:
      return count_of(bytes, all_set(uint16_t{0x7c00}), uint16_t{});
    default:
      return 0;
  }
}

std::string counts_json(std::string_view kind, std::span<const std::string> names,
                        const CountedTables& tables, uint64_t nonfinite) {
  JsonObject out;
  out.number("nonfinite", nonfinite);
  const auto samples = Samples::of(tables);
  if (samples) out.number("samples", samples->size()).number("tokens", samples->tokens());
  if (samples && kind != "train") put_rollout(*samples, tables, out);
  if (kind == "train") {
    std::vector<std::string> columns;
    for (const std::string& name : names) {
      if (name.find('/') == name.npos) columns.push_back(name);
    }
    std::ranges::sort(columns);
    out.texts("columns", columns);
    out.boolean("events", std::ranges::find(names, "events/digest") != names.end());
    put_scalars(tables, out);
  }
  return out.str();
}

std::map<std::string, std::string> unit_counts(std::string_view kind,
                                               std::span<const Dataset> datasets) {
  struct Group {
    std::vector<std::string> names;
    CountedTables tables;
    uint64_t nonfinite = 0;
  };
  std::map<std::string, Group> groups;
  for (const Dataset& dataset : datasets) {
    const size_t slash = dataset.path.find('/');
    const std::string name = dataset.path.substr(slash + 1);
    Group& group = groups[dataset.path.substr(0, slash)];
    group.names.push_back(name);
    if (counts_nonfinite(name)) group.nonfinite += count_nonfinite(dataset.dtype, dataset.bytes);
    if (!is_counted(name)) continue;
    CountedTable table{dataset.dtype, dataset.bytes, {}};
    if (const auto columns = dataset.attributes.find("columns");
        columns != dataset.attributes.end()) {
      if (const auto* text = std::get_if<std::string>(&columns->second)) table.columns = *text;
    }
    group.tables.emplace(name, std::move(table));
  }
  std::map<std::string, std::string> out;
  for (const auto& [name, group] : groups) {
    out.emplace(name, counts_json(kind, group.names, group.tables, group.nonfinite));
  }
  return out;
}

}  // namespace rlreplay::format
