#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Columns of samples and tokens, as units of rollouts and of training data hold them.
namespace rlreplay::format {

/// What a column has one value for: a sample, or a token; those of prompts are 0 in kResponse.
enum class Axis { kSample, kToken, kResponse };

/// Which samples have a value. Empty when all have one.
/// Shapes: [S] of 0 and 1, or [0].
using Presence = std::vector<uint8_t>;

/// Whether the sample has a value.
[[nodiscard]] inline bool is_present(const Presence& presence, size_t sample) {
  return presence.empty() || presence[sample] != 0;
}

/// A value a sample or a token. Where a sample has none, its elements are zero and mean nothing.
template <class T>
struct Column {
  std::vector<T> values;
  Presence presence;

  [[nodiscard]] bool has(size_t sample) const { return is_present(presence, sample); }
  friend bool operator==(const Column&, const Column&) = default;
};

/// Floats of all tokens, prompts included (+0 there): binary32, or binary64 where that alone holds
/// them exactly. One of the two vectors is in use.
struct TokenFloats {
  std::vector<float> narrow;
  std::vector<double> wide;
  Presence presence;

  [[nodiscard]] bool is_wide() const { return !wide.empty(); }
  size_t size() const { return is_wide() ? wide.size() : narrow.size(); }
  [[nodiscard]] bool has(size_t sample) const { return is_present(presence, sample); }
  double at(size_t token) const {
    return is_wide() ? wide[token] : static_cast<double>(narrow[token]);
  }
  friend bool operator==(const TokenFloats&, const TokenFloats&) = default;
};

/// A text a sample, UTF-8.
struct Texts {
  std::vector<uint64_t> offsets = {0};  // [S + 1], of bytes
  std::string bytes;
  Presence presence;

  [[nodiscard]] bool has(size_t sample) const { return is_present(presence, sample); }
  std::string_view at(size_t sample) const {
    return std::string_view(bytes).substr(offsets[sample], offsets[sample + 1] - offsets[sample]);
  }
  void add(std::string_view text) {
    bytes += text;
    offsets.push_back(bytes.size());
  }
  friend bool operator==(const Texts&, const Texts&) = default;
};

/// Token ids for each token: those that a sampler chose from. The tokens of a prompt have none.
struct TokenSets {
  std::vector<uint64_t> offsets = {0};  // [S + 1], of ids
  std::vector<uint32_t> sizes;          // [T]: a sample's ids, token by token
  std::vector<int32_t> ids;
  Presence presence;

  [[nodiscard]] bool has(size_t sample) const { return is_present(presence, sample); }
  friend bool operator==(const TokenSets&, const TokenSets&) = default;
};

/// Numbers with names: the last axis of a table.
struct NamedColumns {
  std::vector<std::string> names;
  std::vector<double> values;  // row-major, [rows, names]
  Presence presence;

  /// The value of the column `name` in the first row; nothing where there is no such column.
  [[nodiscard]] std::optional<double> find(std::string_view name) const {
    const auto at = std::ranges::find(names, name);
    if (at == names.end()) return std::nullopt;
    return values[static_cast<size_t>(at - names.begin())];
  }

  friend bool operator==(const NamedColumns&, const NamedColumns&) = default;
};

}  // namespace rlreplay::format
