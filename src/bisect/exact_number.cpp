#include "src/bisect/exact_number.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iterator>

namespace rlreplay::bisect {
namespace {

/// More digits than any integer has that binary64 holds exactly.
constexpr size_t kExactDigits = 15;

/// More hexadecimal digits than the widest type holds exactly.
constexpr size_t kExactHexDigits = 16;

constexpr std::string_view kDigits = "0123456789";

/// Takes the characters of a set from the begin of a text.
std::string_view take(std::string_view& text, std::string_view set) {
  const std::string_view taken = text.substr(0, text.find_first_not_of(set));
  text.remove_prefix(taken.size());
  return taken;
}

std::string without_zeros_before(std::string digits) {
  return digits.erase(0, digits.find_first_not_of('0'));
}

bool is_word(std::string_view text) {
  constexpr std::string_view kWords[] = {"nan", "inf", "infinity"};
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::find(std::begin(kWords), std::end(kWords), lower) != std::end(kWords);
}

/// The digits of a decimal behind its zeros, without the point; nothing for a text of another form.
/// A whole number begins with no 0, and an exponent has a sign or the number a point: letters and
/// digits alone may be a digest.
std::optional<std::string> decimal_digits(std::string_view text) {
  const std::string_view whole = take(text, kDigits);
  const bool point = text.starts_with('.');
  if (point) text.remove_prefix(1);
  const std::string_view fraction = point ? take(text, kDigits) : std::string_view();
  if (whole.size() > 1 && whole.starts_with('0')) return std::nullopt;
  if (!text.empty()) {
    text.remove_prefix(1);  // e
    if (take(text, "+-").empty() && !point) return std::nullopt;
  }
  return without_zeros_before(std::string(whole) + std::string(fraction));
}

bool is_exact_decimal(std::string_view text, double number) {
  const std::optional<std::string> digits = decimal_digits(text);
  if (!digits || digits->empty()) return digits.has_value();
  std::string written(digits->size() + 16, '\0');
  std::snprintf(written.data(), written.size(), "%.*e", static_cast<int>(digits->size()) - 1,
                std::fabs(number));
  written.resize(written.find('e'));
  std::erase(written, '.');
  return written == *digits;
}

/// `text` begins with 0x.
bool is_exact_hexadecimal(std::string_view text, double number) {
  std::string digits(text.substr(2, text.find_first_of("pP") - 2));
  std::erase(digits, '.');
  digits = without_zeros_before(std::move(digits));
  if (digits.empty()) return true;
  const long double wide = std::fabs(std::strtold(std::string(text).c_str(), nullptr));
  return digits.size() <= kExactHexDigits && number != 0 && wide == std::fabs(number);
}

}  // namespace

bool is_long_integer(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return text.size() > kExactDigits && text.find_first_not_of(kDigits) == text.npos;
}

std::optional<double> exact_number(const std::string& text) {
  if (text.empty() || is_long_integer(text)) return std::nullopt;
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (end != text.c_str() + text.size()) return std::nullopt;
  std::string_view magnitude = text;
  if (text[0] == '-' || text[0] == '+') magnitude.remove_prefix(1);
  if (is_word(magnitude)) return number;
  if (!std::isfinite(number) || magnitude.find_first_of("0123456789.") != 0) return std::nullopt;
  const bool hexadecimal = magnitude.starts_with("0x") || magnitude.starts_with("0X");
  const bool exact =
      hexadecimal ? is_exact_hexadecimal(magnitude, number) : is_exact_decimal(magnitude, number);
  return exact ? std::optional(number) : std::nullopt;
}

}  // namespace rlreplay::bisect
