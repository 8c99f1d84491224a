#include "src/replay/gate/self_test.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "src/base/natural_order.h"
#include "src/base/same_value.h"
#include "src/replay/gate/outcome.h"

namespace rlreplay::gate {
namespace {

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

/// The float of a type by its place among all of them (ulp_rank), which add_ulps knows of zero.
template <class T>
std::string text_at(int64_t rank) {
  return golden_value(*add_ulps(T{0}, rank));
}

/// A float of the same sign that the tolerances of its key do not let pass: the nearest towards the
/// largest; where none there is far enough, the nearest towards zero; where none at all is, the
/// largest, which passes. Whether one passes changes once on each of these ways.
template <class T>
std::string nearest_beyond(const Golden& golden, const std::string& key, const std::string& value) {
  const auto x = static_cast<T>(*golden_number(value));
  const int64_t place = ulp_rank(x), largest = ulp_rank(std::numeric_limits<T>::max());
  const auto is_beyond = [&](int64_t rank) { return beyond(golden, key, value, text_at<T>(rank)); };
  const int64_t outermost = place < 0 ? -largest : largest;
  int64_t far = is_beyond(outermost) || place == 0 ? outermost : 0;
  if (!is_beyond(far)) return text_at<T>(outermost);
  int64_t within = place;
  for (int64_t middle = 0; (middle = std::midpoint(within, far)) != within;) {
    (is_beyond(middle) ? far : within) = middle;
  }
  return text_at<T>(far);
}

/// A value of the same kind that the tolerances of its key do not let pass, as near as there is.
std::string planted(const Golden& golden, const std::string& key, const std::string& value) {
  const std::optional<double> number = golden_number(value);
  if (!number || !std::isfinite(*number)) return other_text(value);
  return value.ends_with('f') ? nearest_beyond<float>(golden, key, value)
                              : nearest_beyond<double>(golden, key, value);
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
