#include "src/replay/measure/metrics.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>

#include "src/base/ascii.h"
#include "src/base/error.h"
#include "src/base/input_file.h"
#include "src/base/json_value.h"
#include "src/base/number_text.h"
#include "src/base/same_value.h"
#include "src/replay/measure/metric_selection.h"

namespace rlreplay::measure {
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
  const std::string lower = lower_case(std::string(text));
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

/// Whether a text is a whole number of more digits than binary64 holds for certain.
bool is_long_integer(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return text.size() > kExactDigits && text.find_first_not_of(kDigits) == text.npos;
}

/// The number that a text is, where binary64 holds it as it is written: `0x1.8p-1`, `nan`, `inf`,
/// or a finite decimal that has the same digits when it is written with as many. Nothing for any
/// other text, which may be a digest: `1234e567`, `00e1234`, `nan(1)`.
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

constexpr size_t kMaxBytes = size_t{64} << 20;

/// The length of what begins a text and JSON has no exact number for: 0 where there is no such.
size_t inexact_prefix(std::string_view text) {
  for (const std::string_view word : {"NaN", "-Infinity", "Infinity"}) {
    if (text.starts_with(word)) return word.size();
  }
  const size_t length = std::min(text.find_first_not_of("0123456789+-.eE"), text.size());
  return is_long_integer(text.substr(0, length)) ? length : 0;
}

/// Puts quotes around numbers that JSON has no words for, or that its reader would round.
std::string quote_inexact(const std::string& text) {
  std::string out;
  bool in_string = false, in_number = false;
  for (size_t i = 0; i < text.size();) {
    const std::string_view rest = std::string_view(text).substr(i);
    const size_t quoted = in_string || in_number ? 0 : inexact_prefix(rest);
    const size_t length = quoted > 0 ? quoted : in_string && text[i] == '\\' ? 2 : 1;
    if (length == 1 && text[i] == '"') in_string = !in_string;
    in_number = !in_string &&
                (is_letter(text[i]) || is_digit(text[i]) || std::strchr("+-.", text[i]) != nullptr);
    out += quoted > 0 ? '"' + text.substr(i, length) + '"' : text.substr(i, length);
    i += length;
  }
  return out;
}

/// A text as it stands; in quotes what would else be taken for no text, or for one in quotes.
std::string text_of(const std::string& text) {
  return text.empty() || text.starts_with('"') ? json_quoted(text) : text;
}

MetricValue read_value(const JsonValue& value) {
  if (value.is_number()) return {value.number()};
  if (!value.is_string()) {
    throw value.error("a metric is a number or a text, or a list of one a step");
  }
  if (const auto number = exact_number(value.string())) return {*number};
  return {0, text_of(value.string())};
}

}  // namespace

bool MetricValue::nonfinite() const { return text.empty() && !std::isfinite(number); }

std::string MetricValue::describe() const {
  if (!text.empty()) return text;
  return std::isnan(number) ? "nan" : shortest(number);
}

bool agree(const MetricValue& a, const MetricValue& b, double tolerance) {
  if (!a.text.empty() || !b.text.empty()) return a.text == b.text;
  if (same_value(a.number, b.number)) return true;
  return tolerance > 0 && std::isfinite(a.number) && std::isfinite(b.number) &&
         std::fabs(a.number - b.number) <= tolerance;
}

const Metric* find_metric(const std::vector<Metric>& metrics, const std::string& name) {
  const auto it = std::find_if(metrics.begin(), metrics.end(),
                               [&](const Metric& metric) { return metric.name == name; });
  return it == metrics.end() ? nullptr : &*it;
}

std::string names_of(const std::vector<Metric>& metrics) {
  std::vector<std::string> names;
  for (const auto& metric : metrics) names.push_back(metric.name);
  return first_names(names);
}

namespace {

JsonDocument parse_metrics(const std::string& text, const std::string& where) {
  return JsonDocument::parse(quote_inexact(text), where, {4 * kMaxBytes, 8, /*unique_keys=*/true});
}

/// A line is an object, and each key has a value of each line that has it.
std::vector<Metric> read_metric_lines(const std::string& path) {
  std::map<std::string, Metric> metrics;
  std::istringstream lines(read_file(path, kMaxBytes, "a metrics file"));
  size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    const auto document = parse_metrics(line, path + ":" + std::to_string(number));
    for (const auto& [name, value] : document.root().members()) {
      Metric& metric = metrics[std::string(name)];
      metric.name = name;
      metric.per_step = true;
      metric.values.push_back(read_value(value));
    }
  }
  std::vector<Metric> out;
  for (auto& [name, metric] : metrics) out.push_back(std::move(metric));
  return out;
}

}  // namespace

std::vector<Metric> read_metrics(const std::string& path) {
  if (path.ends_with(".jsonl")) return read_metric_lines(path);
  const auto document = parse_metrics(read_file(path, kMaxBytes, "a metrics file"), path);
  std::vector<Metric> metrics;
  for (const auto& [name, value] : document.root().members()) {
    Metric metric{std::string(name), value.is_array(), {}, {}};
    if (metric.per_step) {
      for (size_t i = 0; i < value.size(); ++i) metric.values.push_back(read_value(value.at(i)));
    } else {
      metric.values.push_back(read_value(value));
    }
    metrics.push_back(std::move(metric));
  }
  return metrics;
}

}  // namespace rlreplay::measure
