#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rlreplay {

/// One JSON object on one line, as the programs print it: members in the order of the calls. Keys
/// are the programs' own words and need no escapes.
class JsonLine {
 public:
  /// Bytes that are not UTF-8 become U+FFFD.
  JsonLine& text(std::string_view key, std::string_view value);
  JsonLine& integer(std::string_view key, int64_t value);
  JsonLine& boolean(std::string_view key, bool value);
  /// The shortest decimal that reads back as `value`; null where there is none or it is not finite.
  JsonLine& number(std::string_view key, std::optional<double> value);
  /// A number whose bits matter: `key` as above, and `key`_bits, its binary64 as 16 digits of
  /// hexadecimal, which also tell infinities and NaNs apart.
  JsonLine& bits(std::string_view key, double value);
  JsonLine& null(std::string_view key);
  /// `value` is JSON already.
  JsonLine& json(std::string_view key, std::string_view value);

  /// The whole object, without a line feed at its end.
  std::string str() const { return "{" + members_ + "}"; }

 private:
  std::string members_;
};

/// A number as JsonLine::number writes it.
[[nodiscard]] std::string json_number(std::optional<double> value);

/// `0x1.8p+1`: C's and Python's notation, as few digits as are needed.
[[nodiscard]] std::string hex_float(double value);

}  // namespace rlreplay
