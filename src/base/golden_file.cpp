#include "src/base/golden_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "src/base/atomic_file.h"
#include "src/base/error.h"
#include "src/base/input_file.h"
#include "src/base/json_line.h"
#include "src/base/json_value.h"
#include "src/base/natural_order.h"
#include "src/base/number_text.h"
#include "src/base/same_value.h"
#include "src/base/text_table.h"

namespace rlreplay {
namespace {

constexpr std::string_view kTitle = "# rlreplay golden ";
constexpr size_t kMaxBytes = size_t{64} << 20;
constexpr std::string_view kVersion = "2", kWithoutTexts = "1";
constexpr std::string_view kMadeBy = "made by: ";
constexpr std::string_view kTextBegin = " \"";
constexpr std::string_view kDecimal = "  # ";  // behind a float, for people

[[noreturn]] void corrupt(const std::string& message, const std::string& where, size_t line) {
  throw Error(ErrorCode::kCorrupt, message, where + ":" + std::to_string(line));
}

bool is_conflict(std::string_view line) {
  return line.starts_with("<<<<<<<") || line.starts_with(">>>>>>>") ||
         line.starts_with("|||||||") || line == "=======";
}

/// The version of a file.
std::string_view read_title(std::string_view line, const std::string& where) {
  if (!line.starts_with(kTitle)) {
    corrupt("not a golden file: its first line is not \"" + std::string(kTitle) +
                std::string(kVersion) + "\"",
            where, 1);
  }
  const std::string_view version = line.substr(kTitle.size());
  if (version == kVersion || version == kWithoutTexts) return version;
  throw Error(ErrorCode::kUnsupported,
              "a golden file of version " + std::string(version) +
                  "; this program reads versions " + std::string(kWithoutTexts) + " and " +
                  std::string(kVersion),
              where);
}

void add_comment(std::string_view line, GoldenFile& file) {
  std::string_view text = line.substr(1);
  if (text.starts_with(' ')) text.remove_prefix(1);
  if (file.made_by.empty() && text.starts_with(kMadeBy)) text.remove_prefix(kMadeBy.size());
  if (!file.made_by.empty()) file.made_by += '\n';
  file.made_by += text;
}

/// A float that golden_value wrote; nothing where the text is another value.
template <class T>
std::optional<T> parse_float(std::string_view text) {
  const bool single = text.ends_with('f') && text != "inf" && text != "-inf";
  if (single != (sizeof(T) == sizeof(float))) return {};
  if (single) text.remove_suffix(1);
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  if (text != "inf" && !text.starts_with("0x")) return {};
  const auto value = text == "inf" ? std::numeric_limits<T>::infinity()
                                   : parse_number<T>(text.substr(2), std::chars_format::hex);
  if (!value) return {};
  return negative ? -*value : *value;
}

struct Entry {
  std::string key, value;
};

/// `KEY "TEXT"`
Entry text_entry(std::string_view line, size_t quote, const std::string& where, size_t number) {
  if (quote < 2) corrupt("expected a key before the text", where, number);
  try {
    const JsonDocument text = JsonDocument::parse(std::string(line.substr(quote)), where);
    return {std::string(line.substr(0, quote - 1)), text.root().string()};
  } catch (const Error&) {
    corrupt("expected a key, a space and a text in quotes as JSON writes it", where, number);
  }
}

/// `KEY VALUE`
Entry word_entry(std::string_view line, const std::string& where, size_t number) {
  const size_t space = line.rfind(' ');
  if (space == line.npos || space == 0 || space + 1 == line.size()) {
    corrupt("expected a key, a space and a value", where, number);
  }
  return {std::string(line.substr(0, space)), std::string(line.substr(space + 1))};
}

/// `KEY VALUE`, or `KEY VALUE  # DECIMAL`. An edit of the decimal alone would change nothing.
Entry number_entry(std::string_view line, const std::string& where, size_t number) {
  const size_t end = line.find(kDecimal);
  Entry out = word_entry(line.substr(0, end), where, number);
  if (end == line.npos) return out;
  const std::string_view said = line.substr(end + kDecimal.size());
  const std::optional<double> value = golden_number(out.value);
  const std::string expected = value ? shortest_of(*value) : "none";
  if (said == expected) return out;
  corrupt("the decimal of " + out.value + " is " + expected + ", and not " + std::string(said) +
              ": the value counts, change both or neither",
          where, number);
}

/// A word of version 1, which wrote white space in a word as %XX.
std::string unescaped(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned byte = 0;
    const bool digits = text[i] == '%' && i + 3 <= text.size() &&
                        std::from_chars(&text[i + 1], &text[i] + 3, byte, 16).ptr == &text[i] + 3;
    out += digits ? static_cast<char>(byte) : text[i];
    if (digits) i += 2;
  }
  return out;
}

void add_entry(std::string_view line, std::string_view version, const std::string& where,
               size_t number, GoldenFile& file) {
  if (is_conflict(line)) {
    corrupt("a merge left a conflict here: resolve it, or remove the file and record anew", where,
            number);
  }
  Entry entry;
  if (version == kWithoutTexts) {
    entry = word_entry(line, where, number);
    entry.value = unescaped(entry.value);
  } else if (const size_t blank = line.find(kTextBegin); blank != line.npos) {
    entry = text_entry(line, blank + 1, where, number);
  } else {
    entry = number_entry(line, where, number);
  }
  if (!file.entries.emplace(entry.key, std::move(entry.value)).second) {
    corrupt("a second value for \"" + entry.key + "\": keep one of them", where, number);
  }
}

template <class T>
std::optional<int64_t> distance(std::string_view a, std::string_view b) {
  const auto x = parse_float<T>(a), y = parse_float<T>(b);
  if (!x || !y) return {};
  return ulp_distance(*x, *y);
}

/// " (+1 ulp)"; of numbers that lie far apart or on both sides of zero, by how much they differ.
std::string distance_text(const GoldenDifference& d) {
  if (!d.ulps) return {};
  const double a = *golden_number(*d.recorded), b = *golden_number(*d.now);
  if (a == b) {
    return std::signbit(a) == std::signbit(b) ? " (the same number, written otherwise)"
                                              : " (zeros of different sign)";
  }
  if (std::signbit(a) == std::signbit(b) && std::abs(*d.ulps) < kFarUlps) {
    return " (" + std::string(*d.ulps > 0 ? "+" : "") + std::to_string(*d.ulps) +
           (std::abs(*d.ulps) == 1 ? " ulp)" : " ulps)");
  }
  const double apart = std::abs(b - a);
  return " (|a - b| " + short_number(apart) + ", relative " +
         short_number(apart / std::max(std::abs(a), std::abs(b))) + ")";
}

/// Why a line cannot hold a key; empty where it can.
std::string_view problem_of_key(std::string_view key) {
  if (key.empty()) return "is empty";
  if (key[0] == '#' || key[0] == ' ') return "begins with # or a blank";
  if (key.find_first_of("\n\r") != key.npos) return "has a line break";
  if (key.find(kTextBegin) != key.npos) return "holds a blank and a quote, where a text begins";
  if (key.find(kDecimal) != key.npos) return "holds two blanks and #, where a decimal begins";
  if (is_conflict(key)) return "is a mark of a conflict";
  return "";
}

/// Whether a value stands as it is, and not in quotes.
bool is_word(std::string_view value) {
  return !value.empty() && value[0] != '"' &&
         std::ranges::all_of(value, [](char c) { return c > 0x20 && c < 0x7f; });
}

std::string written(const std::string& value) {
  if (!is_word(value)) return json_quoted(value);
  const std::optional<double> number = golden_number(value);
  return number && std::isfinite(*number) ? value + std::string(kDecimal) + shortest_of(*number)
                                          : value;
}

}  // namespace

std::optional<double> golden_number(const std::string& value) {
  if (const auto wide = parse_float<double>(value)) return wide;
  const auto narrow = parse_float<float>(value);
  return narrow ? std::optional(static_cast<double>(*narrow)) : std::nullopt;
}

std::optional<int64_t> golden_distance(const std::string& recorded, const std::string& now) {
  const auto wide = distance<double>(recorded, now);
  return wide ? wide : distance<float>(recorded, now);
}

std::string golden_value(double value) { return hex_float(value); }

std::string golden_value(float value) { return hex_float(static_cast<double>(value)) + "f"; }

std::string golden_value(int64_t value) { return std::to_string(value); }

GoldenFile parse_golden(std::string_view text, const std::string& where) {
  GoldenFile out;
  std::string_view version;
  size_t number = 0;
  while (!text.empty() || number == 0) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    ++number;
    if (number == 1) {
      version = read_title(line, where);
    } else if (line.starts_with('#')) {
      add_comment(line, out);
    } else if (!line.empty()) {
      add_entry(line, version, where, number, out);
    }
  }
  return out;
}

GoldenFile read_golden(const std::string& path) {
  return parse_golden(read_file(path, kMaxBytes, "a golden file"), path);
}

std::string golden_text(const GoldenFile& file) {
  std::string out = std::string(kTitle) + std::string(kVersion) + "\n";
  std::string_view comment = file.made_by;
  for (bool first = true; !comment.empty(); first = false) {
    const size_t end = std::min(comment.find('\n'), comment.size());
    out += "# " + std::string(first ? kMadeBy : "") + std::string(comment.substr(0, end)) + "\n";
    comment.remove_prefix(std::min(end + 1, comment.size()));
  }
  for (const auto& [key, value] : file.entries) {
    if (const std::string_view why = problem_of_key(key); !why.empty()) {
      throw Error(ErrorCode::kUsage, "no line of a golden file holds the key " + json_quoted(key) +
                                         ", which " + std::string(why) + ": name it otherwise");
    }
    out += key + " " + written(value) + "\n";
  }
  return out;
}

void write_golden(const std::string& path, const GoldenFile& file) {
  AtomicFile out(path);
  out.write(golden_text(file));
  out.commit();
}

std::vector<GoldenDifference> compare_golden(const GoldenEntries& recorded,
                                             const GoldenEntries& now) {
  std::vector<GoldenDifference> out;
  auto a = recorded.begin();
  auto b = now.begin();
  while (a != recorded.end() || b != now.end()) {
    if (b == now.end() || (a != recorded.end() && a->first < b->first)) {
      out.push_back({a->first, a->second, {}, {}});
      ++a;
    } else if (a == recorded.end() || b->first < a->first) {
      out.push_back({b->first, {}, b->second, {}});
      ++b;
    } else {
      if (a->second != b->second) {
        out.push_back({a->first, a->second, b->second, golden_distance(a->second, b->second)});
      }
      ++a, ++b;
    }
  }
  std::ranges::sort(out, natural_less, &GoldenDifference::key);
  return out;
}

std::string to_string(std::span<const GoldenDifference> differences, size_t limit) {
  std::string out;
  for (const GoldenDifference& d : differences.first(std::min(limit, differences.size()))) {
    out += d.key + ": " + (d.recorded ? *d.recorded + " recorded, " : "not recorded, ") +
           (d.now ? *d.now + " now" : "not given now");
    out += distance_text(d) + "\n";
  }
  if (differences.size() > limit) {
    out += "and " + std::to_string(differences.size() - limit) + " more\n";
  }
  return out;
}

}  // namespace rlreplay
