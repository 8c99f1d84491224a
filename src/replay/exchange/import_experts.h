#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "format/foreign/numbers.h"
#include "format/rollout_data.h"
#include "src/base/error.h"

namespace rlreplay::replay {

/// The samples of a rollout's file; a row is a sample of the data that are made of it.
struct RolloutSamples {
  const foreign::Tree& tree;
  const foreign::Sequence& list;
  const std::vector<size_t>& order;  // place in the file of each row

  const foreign::Value* field(size_t row, std::string_view key) const;
  /// What this program's own export put into a sample's metadata.
  const foreign::Value* own(size_t row, std::string_view key) const;
  /// Integers; nothing where it holds something else.
  [[nodiscard]] std::optional<foreign::Numbers> own_numbers(size_t row, std::string_view key) const;
};

/// A number of an own export, of a type that its dataset has. Errors: kCorrupt, naming the sample.
template <class T>
[[nodiscard]] T checked(std::string_view key, int64_t x, uint64_t sample) {
  if (std::in_range<T>(x)) return static_cast<T>(x);
  throw Error(ErrorCode::kCorrupt,
              std::string(key) + " holds " + std::to_string(x) + ", expected 0 to " +
                  std::to_string(std::numeric_limits<T>::max()),
              "sample " + std::to_string(sample));
}

/// The experts that this program's own export wrote, where every sample has them.
/// `ids`: of the samples, which have so many tokens together. Errors: kCorrupt.
[[nodiscard]] std::optional<format::Experts> read_own_experts(const RolloutSamples& from,
                                                              const std::vector<uint64_t>& ids,
                                                              uint64_t tokens);

/// The experts of a framework's file, and why they are left in the file alone.
struct Routes {
  std::optional<format::Experts> experts;
  std::string refused;
};

/// What routers chose, as frameworks keep it: [tokens - 1, layers, slots] of a sample, for the last
/// token was given to no router. A sample without has recorded none of its tokens.
[[nodiscard]] Routes read_routes(const RolloutSamples& from, const format::RolloutData& data);

}  // namespace rlreplay::replay
