#include "format/foreign/pickle_numbers.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include "format/foreign/text.h"

namespace rlreplay::foreign {
namespace {

constexpr size_t kMaxBytes = 2048;
constexpr size_t kMaxDigits = 4300;

/// Decimal digits of an unsigned number, least significant byte first.
std::string decimal(std::vector<uint8_t> bytes) {
  std::string digits;
  while (!bytes.empty()) {
    uint32_t rest = 0;
    for (size_t i = bytes.size(); i-- > 0;) {
      const uint32_t part = rest * 256 + bytes[i];
      bytes[i] = static_cast<uint8_t>(part / 10);
      rest = part % 10;
    }
    digits += static_cast<char>('0' + rest);
    while (!bytes.empty() && bytes.back() == 0) bytes.pop_back();
  }
  std::reverse(digits.begin(), digits.end());
  return digits;
}

}  // namespace

Value integer_from_bytes(Tree& tree, Bytes bytes) {
  if (bytes.empty()) return Value::of_int(0);
  if (bytes.size() > kMaxBytes) {
    throw Error(ErrorCode::kCorrupt, "an integer of " + std::to_string(bytes.size()) +
                                         " bytes; at most " + std::to_string(kMaxBytes) +
                                         " are accepted");
  }
  const bool negative = bytes.back() & 0x80;
  const uint8_t fill = negative ? 0xFF : 0;
  size_t size = bytes.size();
  while (size > 8 && bytes[size - 1] == fill && (bytes[size - 2] & 0x80) == (fill & 0x80)) --size;
  if (size <= 8) {
    uint64_t value = negative ? UINT64_MAX : 0;
    for (size_t i = size; i-- > 0;) value = value << 8 | bytes[i];
    return Value::of_int(static_cast<int64_t>(value));
  }
  std::vector<uint8_t> magnitude(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size));
  if (negative) {
    uint32_t carry = 1;
    for (uint8_t& byte : magnitude) {
      const uint32_t flipped = static_cast<uint8_t>(~byte) + carry;
      byte = static_cast<uint8_t>(flipped);
      carry = flipped >> 8;
    }
    if (carry != 0) magnitude.push_back(1);
  }
  const std::string digits = decimal(std::move(magnitude));
  return tree.own_text(Kind::kBigInt, std::string(negative ? "-" : "").append(digits));
}

Value integer_from_text(Tree& tree, std::string_view text) {
  const bool negative = text.starts_with('-');
  std::string_view digits = text;
  if (negative || text.starts_with('+')) digits.remove_prefix(1);
  const bool plain = !digits.empty() && std::all_of(digits.begin(), digits.end(),
                                                    [](char c) { return c >= '0' && c <= '9'; });
  if (!plain) {
    throw Error(ErrorCode::kCorrupt, printable(text) + " is not a decimal integer");
  }
  if (digits.size() > kMaxDigits) {
    throw Error(ErrorCode::kCorrupt, "an integer of " + std::to_string(digits.size()) +
                                         " digits; at most " + std::to_string(kMaxDigits) +
                                         " are accepted");
  }
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size() - 1));
  const std::string canonical = std::string(negative ? "-" : "").append(digits);
  int64_t value = 0;
  const auto read = std::from_chars(canonical.data(), canonical.data() + canonical.size(), value);
  if (read.ec == std::errc()) return Value::of_int(value);
  return tree.own_text(Kind::kBigInt, canonical);
}

Value float_from_text(std::string_view text) {
  double value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec == std::errc::invalid_argument || read.ptr != text.data() + text.size()) {
    throw Error(ErrorCode::kCorrupt, printable(text) + " is not a float");
  }
  return Value::of_float(value);
}

}  // namespace rlreplay::foreign
