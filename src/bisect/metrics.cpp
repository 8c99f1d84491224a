#include "src/bisect/metrics.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string_view>

#include "src/base/error.h"
#include "src/base/json_value.h"

namespace rlreplay::bisect {
namespace {

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(ErrorCode::kIncomplete, "this file cannot be opened", path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Puts quotes around numbers that JSON has no words for.
std::string quote_nonfinite(const std::string& text) {
  constexpr std::string_view kWords[] = {"NaN", "-Infinity", "Infinity"};
  std::string out;
  bool in_string = false;
  for (size_t i = 0; i < text.size();) {
    size_t length = 1;
    for (const auto word : kWords) {
      if (!in_string && std::string_view(text).substr(i).starts_with(word)) length = word.size();
    }
    if (length > 1) {
      out += '"' + text.substr(i, length) + '"';
    } else {
      if (in_string && text[i] == '\\' && i + 1 < text.size()) length = 2;
      if (text[i] == '"') in_string = !in_string;
      out += text.substr(i, length);
    }
    i += length;
  }
  return out;
}

double read_number(const JsonValue& value) {
  if (value.is_number()) return value.number();
  if (!value.is_string()) throw value.error("a metric is a number, or a list of one a step");
  const std::string& text = value.string();
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (text.empty() || end != text.c_str() + text.size()) {
    throw value.error("a metric is a number, or a list of one a step, not a text");
  }
  return number;
}

}  // namespace

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
  const auto document = JsonDocument::parse(quote_nonfinite(read_text(path)), path,
                                            {size_t{1} << 28, 8, /*unique_keys=*/true});
  std::vector<Metric> metrics;
  for (const auto& [name, value] : document.root().members()) {
    Metric metric{std::string(name), value.is_array(), {}, {}};
    if (metric.per_step) {
      for (size_t i = 0; i < value.size(); ++i) metric.values.push_back(read_number(value.at(i)));
    } else {
      metric.values.push_back(read_number(value));
    }
    metrics.push_back(std::move(metric));
  }
  return metrics;
}

}  // namespace rlreplay::bisect
