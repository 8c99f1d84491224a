#include "src/base/json_line.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>

#include "src/base/json_value.h"
#include "src/base/number_text.h"

namespace rlreplay {
namespace {

std::string decimal(double value) {
  // Readers take -0 for an integer, which has no sign.
  if (value == 0 && std::signbit(value)) return "-0.0";
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

}  // namespace

std::string json_number(std::optional<double> value) {
  return value && std::isfinite(*value) ? decimal(*value) : "null";
}

std::string hex_float(double value) {
  if (std::isnan(value)) return "nan";
  const std::string sign = std::signbit(value) ? "-" : "";
  if (std::isinf(value)) return sign + "inf";
  char text[32];
  const auto end =
      std::to_chars(text, text + sizeof text, std::fabs(value), std::chars_format::hex).ptr;
  return sign + "0x" + std::string(text, end);
}

JsonLine& JsonLine::json(std::string_view key, std::string_view value) {
  if (!members_.empty()) members_ += ',';
  members_.append("\"").append(key).append("\":").append(value);
  return *this;
}

JsonLine& JsonLine::text(std::string_view key, std::string_view value) {
  return json(key, json_quoted(value));
}

JsonLine& JsonLine::integer(std::string_view key, int64_t value) {
  return json(key, std::to_string(value));
}

JsonLine& JsonLine::boolean(std::string_view key, bool value) {
  return json(key, value ? "true" : "false");
}

JsonLine& JsonLine::number(std::string_view key, std::optional<double> value) {
  return json(key, json_number(value));
}

JsonLine& JsonLine::bits(std::string_view key, double value) {
  number(key, value);
  return text(std::string(key) + "_bits", hex(std::bit_cast<uint64_t>(value), 16));
}

JsonLine& JsonLine::null(std::string_view key) { return json(key, "null"); }

}  // namespace rlreplay
