#include "src/base/natural_order.h"

#include <algorithm>

#include "src/base/ascii.h"

namespace rlreplay {
namespace {

/// Cuts the digits off the beginning, without their leading zeros.
std::string_view take_digits(std::string_view& text) {
  const auto end = std::ranges::find_if_not(text, is_digit);
  std::string_view digits = text.substr(0, static_cast<size_t>(end - text.begin()));
  text.remove_prefix(digits.size());
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
  return digits;
}

}  // namespace

bool natural_less(std::string_view a, std::string_view b) {
  std::string_view x = a, y = b;
  while (!x.empty() && !y.empty()) {
    if (is_digit(x[0]) && is_digit(y[0])) {
      const std::string_view m = take_digits(x), n = take_digits(y);
      if (m.size() != n.size()) return m.size() < n.size();
      if (m != n) return m < n;
    } else if (x[0] != y[0]) {
      return static_cast<unsigned char>(x[0]) < static_cast<unsigned char>(y[0]);
    } else {
      x.remove_prefix(1);
      y.remove_prefix(1);
    }
  }
  return x.empty() != y.empty() ? x.empty() : a < b;
}

}  // namespace rlreplay
