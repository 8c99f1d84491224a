#include "src/task/final_number.h"

#include <algorithm>
#include <vector>

#include "src/base/ascii.h"

namespace rlreplay {
namespace {

bool digits_at(std::string_view text, size_t i, size_t count) {
  if (i + count > text.size()) return false;
  return std::all_of(text.begin() + static_cast<std::ptrdiff_t>(i),
                     text.begin() + static_cast<std::ptrdiff_t>(i + count), is_digit);
}

std::string without_zeros(std::string digits) {
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size() - 1));
  return digits;
}

struct Decimal {
  std::string digits;  // without the point
  size_t places = 0;   // digits behind the point
};

/// Reads digits, commas that group them by three, and one point; `i` moves behind them.
std::optional<Decimal> read_decimal(std::string_view text, size_t& i) {
  Decimal out;
  const size_t begin = i;
  while (i < text.size() && is_digit(text[i])) out.digits += text[i++];
  if (i > begin && i - begin <= 3) {
    while (i < text.size() && text[i] == ',' && digits_at(text, i + 1, 3) &&
           !digits_at(text, i + 4, 1)) {
      out.digits.append(text.substr(i + 1, 3));
      i += 4;
    }
  }
  if (i < text.size() && text[i] == '.' && digits_at(text, i + 1, 1)) {
    for (++i; i < text.size() && is_digit(text[i]); ++i, ++out.places) out.digits += text[i];
  }
  if (out.digits.empty()) return std::nullopt;
  return out;
}

FinalNumber ratio(bool negative, const Decimal& over, const Decimal& under) {
  FinalNumber number;
  number.numerator = without_zeros(over.digits + std::string(under.places, '0'));
  number.denominator = without_zeros(under.digits + std::string(over.places, '0'));
  number.negative = negative && number.numerator != "0";
  return number;
}

bool is_zero(const Decimal& decimal) { return without_zeros(decimal.digits) == "0"; }

/// a or a/b without its sign.
std::optional<FinalNumber> read_unsigned(std::string_view text, size_t& i, bool negative) {
  const auto over = read_decimal(text, i);
  if (!over) return std::nullopt;
  Decimal under{"1", 0};
  if (i < text.size() && text[i] == '/') {
    size_t behind = i + 1;
    const auto read = read_decimal(text, behind);
    if (read && !is_zero(*read)) {
      under = *read;
      i = behind;
    }
  }
  return ratio(negative, *over, under);
}

/// \frac{a}{b} as a/b; spaces and separators that only LaTeX writes go.
std::string plain(std::string_view latex) {
  std::string out;
  for (size_t i = 0; i < latex.size(); ++i) {
    const std::string_view rest = latex.substr(i);
    bool fraction = false;
    for (const std::string_view name : {"\\frac{", "\\dfrac{", "\\tfrac{"}) {
      if (!rest.starts_with(name)) continue;
      const size_t middle = rest.find_first_of("{}", name.size());
      if (middle == rest.npos || rest.substr(middle, 2) != "}{") continue;
      const size_t end = rest.find_first_of("{}", middle + 2);
      if (end == rest.npos || rest[end] != '}') continue;
      out.append(rest.substr(name.size(), middle - name.size())).append("/");
      out.append(rest.substr(middle + 2, end - middle - 2));
      i += end;
      fraction = true;
    }
    if (fraction) continue;
    if (rest.starts_with("{,}")) {
      out += ',';
      i += 2;
    } else if (rest.starts_with("\\!") || rest.starts_with("\\,") || rest.starts_with("\\ ")) {
      ++i;
    } else if (!rest.starts_with("\\$")) {
      out += latex[i];
    }
  }
  return out;
}

/// Bytes of a sign of currency at `i`: $, EUR, GBP, JPY.
size_t currency_at(std::string_view text, size_t i) {
  for (const std::string_view sign : {"$", "\xe2\x82\xac", "\xc2\xa3", "\xc2\xa5"}) {
    if (text.substr(i).starts_with(sign)) return sign.size();
  }
  return 0;
}

/// Bytes of a sign at `i`; U+2212 is a minus too.
size_t sign_at(std::string_view text, size_t i, bool& negative) {
  if (i >= text.size()) return 0;
  negative = text[i] == '-' || text.substr(i).starts_with("\xe2\x88\x92");
  if (text[i] == '-' || text[i] == '+') return 1;
  return negative ? 3 : 0;
}

/// A number that begins at `i` with its sign and currency, in either order.
std::optional<FinalNumber> read_number(std::string_view text, size_t& i) {
  bool negative = false;
  size_t at = i + currency_at(text, i);
  at += sign_at(text, at, negative);
  at += currency_at(text, at);
  const auto number = read_unsigned(text, at, negative);
  if (number) i = at;
  return number;
}

/// Behind these a minus is an operator or a dash.
bool ends_operand(char c) {
  return is_letter(c) || is_digit(c) || c == ')' || c == '.' || c == '%';
}

std::optional<FinalNumber> last_number(std::string_view text) {
  std::optional<FinalNumber> last;
  for (size_t i = 0; i < text.size();) {
    bool negative = false;
    const bool sign = sign_at(text, i, negative) != 0;
    const auto number =
        sign && i > 0 && ends_operand(text[i - 1]) ? std::nullopt : read_number(text, i);
    if (number) {
      last = number;
    } else {
      ++i;
    }
  }
  return last;
}

/// The number right behind the last #### that has one.
std::optional<FinalNumber> behind_hashes(std::string_view text, size_t& place) {
  for (size_t at = text.rfind("####"); at != text.npos;
       at = at == 0 ? text.npos : text.rfind("####", at - 1)) {
    size_t i = at + 4;
    while (i < text.size() && (text[i] == ' ' || text[i] == '*')) ++i;
    if (const auto number = read_number(text, i)) {
      place = at;
      return number;
    }
  }
  return std::nullopt;
}

/// The last number in the last \boxed{} that has one.
std::optional<FinalNumber> in_box(std::string_view text, size_t& place) {
  constexpr std::string_view kBox = "\\boxed{";
  size_t end = text.size();  // boxes do not reach beyond the next one
  for (size_t at = text.rfind(kBox); at != text.npos;
       at = at == 0 ? text.npos : text.rfind(kBox, at - 1)) {
    size_t i = at + kBox.size();
    const size_t begin = i;
    for (int depth = 1; i < end; ++i) {
      depth += text[i] == '{' ? 1 : text[i] == '}' ? -1 : 0;
      if (depth == 0) break;
    }
    end = at;
    if (const auto number = last_number(plain(text.substr(begin, i - begin)))) {
      place = at;
      return number;
    }
  }
  return std::nullopt;
}

/// a * b, long multiplication.
std::string product(const std::string& a, const std::string& b) {
  std::vector<uint32_t> cells(a.size() + b.size(), 0);
  for (size_t i = a.size(); i-- > 0;) {
    uint32_t carry = 0;
    for (size_t j = b.size(); j-- > 0;) {
      const uint32_t cell = cells[i + j + 1] + carry +
                            static_cast<uint32_t>(a[i] - '0') * static_cast<uint32_t>(b[j] - '0');
      cells[i + j + 1] = cell % 10;
      carry = cell / 10;
    }
    cells[i] += carry;
  }
  std::string digits;
  for (const uint32_t cell : cells) digits += static_cast<char>('0' + cell);
  return without_zeros(digits);
}

}  // namespace

bool FinalNumber::operator==(const FinalNumber& other) const {
  if (negative != other.negative) return false;
  if (numerator == other.numerator && denominator == other.denominator) return true;
  // Longer numbers are equal only as written: a model may write digits without end.
  constexpr size_t kMaxDigits = 1000;
  for (const auto* digits : {&numerator, &denominator, &other.numerator, &other.denominator}) {
    if (digits->size() > kMaxDigits) return false;
  }
  return product(numerator, other.denominator) == product(other.numerator, denominator);
}

std::optional<FinalNumber> final_number(std::string_view text) {
  size_t hashes_at = 0, box_at = 0;
  const auto hashes = behind_hashes(text, hashes_at);
  const auto box = in_box(text, box_at);
  if (hashes && (!box || hashes_at > box_at)) return hashes;
  if (box) return box;
  return last_number(text);
}

}  // namespace rlreplay
