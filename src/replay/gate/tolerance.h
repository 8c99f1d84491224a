#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace rlreplay::gate {

/// How far values may lie from the recorded ones before a golden file calls them different, and
/// why. Golden files are exact where they have none.
struct Tolerance {
  enum class Unit { kUlps, kAbsolute, kRelative };

  std::string keys;  // a pattern of the shell: `step * loss`
  Unit unit = Unit::kUlps;
  double bound = 0;
  std::string why;

  friend bool operator==(const Tolerance&, const Tolerance&) = default;
};

/// `4 ulps: the cluster has two kinds of cards`, as a golden file says it.
[[nodiscard]] std::string to_string(const Tolerance& tolerance);

/// Reads that. Errors: kUsage for a bound that is none, another unit, and no reason.
[[nodiscard]] Tolerance parse_tolerance(const std::string& keys, std::string_view text,
                                        const std::string& where);

/// Whether a key is one of those that the tolerance speaks of.
[[nodiscard]] bool covers(const Tolerance& tolerance, const std::string& key);

/// How far two values of a golden file lie apart; nothing where they are not finite floats of one
/// type, between which there is no distance.
[[nodiscard]] std::optional<double> distance(Tolerance::Unit unit, const std::string& recorded,
                                             const std::string& now);

/// How far the two lie apart that lie farthest; nothing where some have no distance. A relative one
/// is never too small by a rounding.
[[nodiscard]] std::optional<double> spread(Tolerance::Unit unit,
                                           const std::set<std::string>& values);

}  // namespace rlreplay::gate
