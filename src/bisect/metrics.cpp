#include "src/bisect/metrics.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstring>
#include <string_view>

#include "src/base/error.h"
#include "src/base/input_file.h"
#include "src/base/json_value.h"
#include "src/base/same_value.h"
#include "src/bisect/exact_number.h"

namespace rlreplay::bisect {
namespace {

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
    in_number = !in_string && (std::isalnum(static_cast<unsigned char>(text[i])) != 0 ||
                               std::strchr("+-.", text[i]) != nullptr);
    out += quoted > 0 ? '"' + text.substr(i, length) + '"' : text.substr(i, length);
    i += length;
  }
  return out;
}

MetricValue read_value(const JsonValue& value) {
  if (value.is_number()) return {value.number()};
  if (!value.is_string()) {
    throw value.error("a metric is a number or a text, or a list of one a step");
  }
  if (const auto number = exact_number(value.string())) return {*number};
  return {0, value.string().empty() ? "\"\"" : value.string()};
}

}  // namespace

bool MetricValue::nonfinite() const { return text.empty() && !std::isfinite(number); }

std::string MetricValue::describe() const {
  if (!text.empty()) return text;
  if (std::isnan(number)) return "nan";
  char digits[32];
  return {digits, std::to_chars(digits, digits + sizeof digits, number).ptr};
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
  std::string names;
  for (const auto& metric : metrics) names += (names.empty() ? "" : ", ") + metric.name;
  return names;
}

std::vector<Metric> read_metrics(const std::string& path) {
  const std::string text = quote_inexact(read_file(path, kMaxBytes, "a metrics file"));
  const auto document = JsonDocument::parse(text, path, {4 * kMaxBytes, 8, /*unique_keys=*/true});
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

}  // namespace rlreplay::bisect
