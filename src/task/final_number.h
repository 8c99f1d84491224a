#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rlreplay {

/// A number as it is written, exact: numerator / denominator, of decimal digits.
struct FinalNumber {
  bool negative = false;
  std::string numerator;    // no leading zeros; "0" for zero
  std::string denominator;  // no leading zeros, never zero

  bool operator==(const FinalNumber& other) const;
};

/// The number that a text gives as its answer. It is the number behind the last `####`, or in the
/// last `\boxed{}`, whichever comes later and holds a number; else the last number of the text.
/// Read are signs, thousands' commas, decimals, fractions (3/4, \frac{3}{4}), and signs of currency
/// before a number.
[[nodiscard]] std::optional<FinalNumber> final_number(std::string_view text);

}  // namespace rlreplay
