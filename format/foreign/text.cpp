#include "format/foreign/text.h"

#include <algorithm>
#include <array>

#include "src/base/number_text.h"

namespace rlreplay::foreign {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// The value of `count` hexadecimal digits at `at`, -1 where there are fewer.
int64_t hex_number(std::string_view text, size_t at, size_t count) {
  if (at > text.size() || count > text.size() - at) return -1;
  int64_t value = 0;
  for (size_t i = 0; i < count; ++i) {
    const int digit = hex_digit(text[at + i]);
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

/// Appends what the escape at `text[at]` (behind the backslash) means and moves `at` behind it.
bool append_escape(std::string& out, std::string_view text, size_t& at) {
  const char c = text[at++];
  const std::string_view from = "\\'\"abfnrtv";
  const std::string_view to = "\\'\"\a\b\f\n\r\t\v";
  if (const size_t found = from.find(c); found != from.npos) {
    out += to[found];
  } else if (c == 'x') {
    const int64_t value = hex_number(text, at, 2);
    if (value < 0) return false;
    out += static_cast<char>(value);
    at += 2;
  } else if (c >= '0' && c <= '7') {
    int value = c - '0';
    for (int i = 0; i < 2 && at < text.size() && text[at] >= '0' && text[at] <= '7'; ++i) {
      value = value * 8 + (text[at++] - '0');
    }
    out += static_cast<char>(value);
  } else {
    out += '\\';
    out += c;
  }
  return true;
}

}  // namespace

void corrupt(const std::string& message, const std::string& where) {
  throw Error(ErrorCode::kCorrupt, message, where);
}

bool has_surrogates(std::string_view text) { return !is_utf8(text, Surrogates::kRefused); }

std::optional<std::string> utf8_to_latin1(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto lead = static_cast<uint8_t>(text[i]);
    if (lead < 0x80) {
      out += text[i];
    } else if (lead == 0xC2 || lead == 0xC3) {
      out += static_cast<char>((lead & 3) << 6 | (static_cast<uint8_t>(text[++i]) & 0x3F));
    } else {
      return std::nullopt;
    }
  }
  return out;
}

std::optional<std::string> decode_raw_unicode_escape(std::string_view raw) {
  std::string out;
  out.reserve(raw.size());
  for (size_t i = 0; i < raw.size();) {
    const bool pair = raw[i] == '\\' && i + 1 < raw.size();
    if (!pair || (raw[i + 1] != 'u' && raw[i + 1] != 'U')) {
      append_utf8(out, static_cast<uint8_t>(raw[i++]));
      if (pair) append_utf8(out, static_cast<uint8_t>(raw[i++]));
      continue;
    }
    const size_t digits = raw[i + 1] == 'u' ? 4 : 8;
    const int64_t value = hex_number(raw, i + 2, digits);
    if (value < 0 || value > 0x10FFFF) return std::nullopt;
    append_utf8(out, static_cast<uint32_t>(value));
    i += 2 + digits;
  }
  return out;
}

std::optional<std::string> decode_quoted(std::string_view quoted) {
  if (quoted.size() < 2 || quoted.front() != quoted.back()) return std::nullopt;
  if (quoted.front() != '\'' && quoted.front() != '"') return std::nullopt;
  const std::string_view body = quoted.substr(1, quoted.size() - 2);
  std::string out;
  for (size_t i = 0; i < body.size();) {
    if (body[i] != '\\') {
      out += body[i++];
      continue;
    }
    if (++i == body.size() || !append_escape(out, body, i)) return std::nullopt;
  }
  return out;
}

std::string to_hex(Bytes bytes) {
  std::string out(bytes.size() * 2, '0');
  for (size_t i = 0; i < bytes.size(); ++i) {
    out[2 * i] = kHexDigits[bytes[i] >> 4];
    out[2 * i + 1] = kHexDigits[bytes[i] & 15];
  }
  return out;
}

}  // namespace rlreplay::foreign
