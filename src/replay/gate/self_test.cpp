#include "src/replay/gate/self_test.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "src/base/natural_order.h"
#include "src/replay/gate/outcome.h"

namespace rlreplay::gate {
namespace {

/// The next float above, of the value's own type.
std::string next_above(const std::string& value) {
  const double x = *golden_number(value);
  if (!value.ends_with('f')) return golden_value(std::nextafter(x, HUGE_VAL));
  return golden_value(std::nextafter(static_cast<float>(x), HUGE_VALF));
}

/// A float as far from a recorded one as a bound allows, or nearly.
std::string at_bound(const Tolerance& tolerance, const std::string& value) {
  double x = *golden_number(value);
  const bool single = value.ends_with('f');
  const double ulp =
      single ? std::numeric_limits<float>::epsilon() : std::numeric_limits<double>::epsilon();
  switch (tolerance.unit) {
    case Tolerance::Unit::kUlps:
      x += tolerance.bound * std::abs(x) * ulp / 2;
      break;
    case Tolerance::Unit::kAbsolute:
      x += tolerance.bound;
      break;
    case Tolerance::Unit::kRelative:
      x += tolerance.bound < 1 ? std::abs(x) * tolerance.bound / (1 - tolerance.bound) : 0;
      break;
  }
  return single ? golden_value(static_cast<float>(x)) : golden_value(x);
}

/// Another text of a value that is no float.
std::string other_text(std::string value) {
  if (value.empty()) return "1";
  value.back() = value.back() == '0' ? '1' : '0';
  return value;
}

bool beyond(const Golden& golden, const std::string& key, const std::string& value,
            const std::string& now) {
  const auto apart = differences(golden.tolerances, {{key, value}}, {{key, now}});
  return !apart.empty() && !apart.front().within;
}

/// The nearest value above that the tolerances of its key do not let pass; where the search ends
/// without one, it passes.
std::string planted(const Golden& golden, const std::string& key, const std::string& value) {
  if (!golden_number(value)) return other_text(value);
  std::string out = value;
  for (const Tolerance& tolerance : golden.tolerances) {
    if (covers(tolerance, key)) out = at_bound(tolerance, value);
    if (beyond(golden, key, value, out)) break;
  }
  constexpr int kSteps = 1 << 12;
  for (int step = 0; step < kSteps && !beyond(golden, key, value, out); ++step) {
    out = next_above(out);
  }
  return out;
}

}  // namespace

SelfTest self_test(const Golden& golden) {
  SelfTest out;
  const size_t stride = (golden.values.size() + kMostPlanted - 1) / kMostPlanted;
  size_t i = 0;
  Observation now{.values = golden.values};  // in another environment, where tolerances count
  for (const auto& [key, value] : golden.values) {
    if (i++ % std::max<size_t>(stride, 1) != 0) continue;
    now.values[key] = planted(golden, key, value);
    ++out.planted;
    if (passes(judge(golden, now).outcome, false)) out.unseen.push_back(key);
    now.values[key] = value;
  }
  std::ranges::sort(out.unseen, natural_less);
  return out;
}

}  // namespace rlreplay::gate
