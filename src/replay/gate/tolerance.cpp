#include "src/replay/gate/tolerance.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <fnmatch.h>

#include "src/base/error.h"
#include "src/base/golden_file.h"
#include "src/base/number_text.h"

namespace rlreplay::gate {
namespace {

using Unit = Tolerance::Unit;

constexpr std::array<std::pair<std::string_view, Unit>, 3> kUnits = {
    {{"ulps", Unit::kUlps}, {"absolute", Unit::kAbsolute}, {"relative", Unit::kRelative}}};

[[noreturn]] void refuse(const std::string& what, const std::string& where) {
  throw Error(ErrorCode::kUsage,
              what +
                  ": a tolerance is written as \"4 ulps: WHY\", \"1e-6 relative: WHY\" or "
                  "\"1e-6 absolute: WHY\"",
              where);
}

}  // namespace

std::string to_string(const Tolerance& tolerance) {
  const auto unit = std::ranges::find(kUnits, tolerance.unit, [](auto& u) { return u.second; });
  return shortest_of(tolerance.bound) + " " + std::string(unit->first) + ": " + tolerance.why;
}

Tolerance parse_tolerance(const std::string& keys, std::string_view text,
                          const std::string& where) {
  const size_t blank = std::min(text.find(' '), text.size());
  const size_t colon = std::min(text.find(':'), text.size());
  const std::optional<double> bound = parse_number<double>(text.substr(0, blank));
  if (!bound || !std::isfinite(*bound) || *bound <= 0 || colon <= blank) {
    refuse("\"" + std::string(text) + "\" is no tolerance of \"" + keys + "\"", where);
  }
  const std::string_view name = text.substr(blank + 1, colon - blank - 1);
  const auto unit = std::ranges::find(kUnits, name, [](auto& u) { return u.first; });
  if (unit == kUnits.end()) refuse("\"" + std::string(name) + "\" is no unit", where);
  const size_t why = text.find_first_not_of(' ', colon + 1);
  if (colon == text.size() || why == text.npos) {
    refuse("the tolerance of \"" + keys + "\" has no reason", where);
  }
  return {keys, unit->second, *bound, std::string(text.substr(why))};
}

bool covers(const Tolerance& tolerance, const std::string& key) {
  return fnmatch(tolerance.keys.c_str(), key.c_str(), 0) == 0;
}

std::optional<double> distance(Unit unit, const std::string& recorded, const std::string& now) {
  if (unit == Unit::kUlps) {
    const std::optional<int64_t> ulps = golden_distance(recorded, now);
    return ulps ? std::optional(std::abs(static_cast<double>(*ulps))) : std::nullopt;
  }
  const std::optional<double> a = golden_number(recorded), b = golden_number(now);
  if (!a || !b || !std::isfinite(*a) || !std::isfinite(*b)) return std::nullopt;
  const double apart = std::abs(*b - *a);
  if (unit == Unit::kAbsolute || apart == 0) return apart;
  return apart / std::max(std::abs(*a), std::abs(*b));
}

std::optional<double> spread(Unit unit, const std::set<std::string>& values) {
  std::vector<std::string> sorted(values.begin(), values.end());
  for (size_t i = 1; i < sorted.size(); ++i) {  // who has one to the first has one to all
    if (!distance(unit, sorted.front(), sorted[i])) return std::nullopt;
  }
  if (sorted.size() < 2) return 0;
  std::ranges::sort(sorted, {}, [](const std::string& text) { return *golden_number(text); });
  const std::optional<double> ends = distance(unit, sorted.front(), sorted.back());
  if (!ends || unit != Unit::kRelative) return ends;  // none: more ulps than can be counted
  // Two of different sign are the farther apart the nearer their magnitudes lie.
  std::ranges::sort(sorted, {},
                    [](const std::string& text) { return std::abs(*golden_number(text)); });
  double out = *ends;
  for (size_t i = 1; i < sorted.size(); ++i) {
    out = std::max(out, *distance(unit, sorted[i - 1], sorted[i]));
  }
  return out * (1 + 2 * std::numeric_limits<double>::epsilon());
}

}  // namespace rlreplay::gate
