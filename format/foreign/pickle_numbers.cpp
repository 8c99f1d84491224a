#include "format/foreign/pickle_numbers.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "format/foreign/text.h"
#include "src/base/ascii.h"
#include "src/base/number_text.h"

namespace rlreplay::foreign {
namespace {

constexpr size_t kMaxBytes = 2048;
constexpr size_t kMaxDigits = 4300;

/// Decimal digits of an unsigned number of 32-bit limbs, least significant first.
std::string decimal(std::vector<uint32_t> limbs) {
  constexpr uint32_t kBase = 1'000'000'000;
  std::string digits;  // the last one first
  while (!limbs.empty()) {
    uint64_t rest = 0;
    for (size_t i = limbs.size(); i-- > 0;) {
      const uint64_t part = rest << 32 | limbs[i];
      limbs[i] = static_cast<uint32_t>(part / kBase);
      rest = part % kBase;
    }
    while (!limbs.empty() && limbs.back() == 0) limbs.pop_back();
    for (uint32_t left = kBase; left > 1 && (!limbs.empty() || rest > 0); left /= 10, rest /= 10) {
      digits += static_cast<char>('0' + rest % 10);
    }
  }
  std::reverse(digits.begin(), digits.end());
  return digits;
}

/// The magnitude of a number of two's complement bytes.
std::vector<uint32_t> magnitude(Bytes bytes, bool negative) {
  std::vector<uint32_t> limbs(bytes.size() / 4 + 1, negative ? UINT32_MAX : 0);
  std::memcpy(limbs.data(), bytes.data(), bytes.size());
  uint64_t carry = negative ? 1 : 0;
  for (uint32_t& limb : limbs) {
    carry += negative ? ~limb : limb;
    limb = static_cast<uint32_t>(carry);
    carry >>= 32;
  }
  while (!limbs.empty() && limbs.back() == 0) limbs.pop_back();
  return limbs;
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
  tree.work(size * size / 16);
  const std::string digits = decimal(magnitude(bytes.first(size), negative));
  return tree.own_text(Kind::kBigInt, std::string(negative ? "-" : "").append(digits));
}

Value integer_from_text(Tree& tree, std::string_view text) {
  const bool negative = text.starts_with('-');
  std::string_view digits = text;
  if (negative || text.starts_with('+')) digits.remove_prefix(1);
  if (!is_digits(digits)) {
    throw Error(ErrorCode::kCorrupt, printable(text) + " is not a decimal integer");
  }
  if (digits.size() > kMaxDigits) {
    throw Error(ErrorCode::kCorrupt, "an integer of " + std::to_string(digits.size()) +
                                         " digits; at most " + std::to_string(kMaxDigits) +
                                         " are accepted");
  }
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size() - 1));
  const std::string canonical = std::string(negative ? "-" : "").append(digits);
  if (const auto value = parse_number<int64_t>(canonical)) return Value::of_int(*value);
  return tree.own_text(Kind::kBigInt, canonical);
}

Value float_from_text(std::string_view text) {
  const auto value = parse_number<double>(text);
  if (!value) throw Error(ErrorCode::kCorrupt, printable(text) + " is not a float");
  return Value::of_float(*value);
}

}  // namespace rlreplay::foreign
