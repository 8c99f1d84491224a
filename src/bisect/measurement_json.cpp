#include "src/bisect/measurement_json.h"

#include <bit>
#include <cstdint>
#include <optional>

#include "src/base/json_line.h"
#include "src/base/json_value.h"
#include "src/base/number_text.h"

namespace rlreplay::bisect {
namespace {

using measure::Measurement;
using measure::Metric;
using measure::MetricValue;
using measure::NamedDigest;
using measure::StepLogProbs;

constexpr char kBits = 'b', kText = 't';  // what a value's text begins with

template <class Read>
void each(const JsonValue& value, const Read& read) {
  for (size_t i = 0; i < value.size(); ++i) read(value.at(i));
}

uint64_t bits_of(const JsonValue& value, std::string_view text) {
  const auto bits = parse_number<uint64_t>(text, 16);
  if (!bits) {
    throw value.error("found " + json_quoted(text.substr(0, 100)) +
                      ", expected the bits of a number in hexadecimal digits");
  }
  return *bits;
}

std::string metric_value_json(const MetricValue& value) {
  return value.text.empty()
             ? '"' + (kBits + shortest(std::bit_cast<uint64_t>(value.number), 16)) + '"'
             : json_quoted(kText + value.text);
}

MetricValue value_of(const JsonValue& value) {
  const std::string& text = value.string();
  if (text.starts_with(kText)) return {0, text.substr(1)};
  if (!text.starts_with(kBits)) {
    throw value.error("found " + json_quoted(text.substr(0, 100)) + ", expected '" + kBits +
                      "' before a number or '" + kText + "' before a text");
  }
  return {std::bit_cast<double>(bits_of(value, text.substr(1)))};
}

constexpr size_t kDigits = 16;  // of the bits of a binary64 number

/// The bits of each number, 16 hexadecimal digits each; nothing where one of the values is a text.
std::optional<std::string> numbers_text(const measure::MetricValues& values) {
  std::string out;
  out.reserve(kDigits * values.size());
  for (const MetricValue& value : values) {
    if (!value.text.empty()) return std::nullopt;
    out += hex(std::bit_cast<uint64_t>(value.number), kDigits);
  }
  return out;
}

void add_numbers(const JsonValue& value, measure::MetricValues& values) {
  const std::string& text = value.string();
  if (text.size() % kDigits != 0) {
    throw value.error("found " + std::to_string(text.size()) +
                      " digits, expected 16 for each binary64 number");
  }
  for (size_t i = 0; i < text.size(); i += kDigits) {
    const auto bits = bits_of(value, std::string_view(text).substr(i, kDigits));
    values.push_back({std::bit_cast<double>(bits)});
  }
}

/// Numbers are one text: as values of a list they would take ten times their bytes to be read.
std::string metric_json(const Metric& metric) {
  JsonLine line;
  line.text("name", metric.name).boolean("per_step", metric.per_step);
  const auto numbers = numbers_text(metric.values);
  numbers ? line.text("numbers", *numbers)
          : line.json("values", json_list(metric.values, metric_value_json));
  return line.json("steps", json_list(metric.step_names)).str();
}

Metric metric_of(const JsonValue& value) {
  Metric metric{value["name"].string(), value["per_step"].boolean(), {}, {}};
  if (const auto numbers = value.find("numbers")) {
    add_numbers(*numbers, metric.values);
  } else {
    each(value["values"], [&](const JsonValue& v) { metric.values.push_back(value_of(v)); });
  }
  each(value["steps"], [&](const JsonValue& v) { metric.step_names.push_back(v.string()); });
  return metric;
}

std::string digest_json(const NamedDigest& digest) {
  return JsonLine().text("name", digest.name).text("digest", digest.digest).str();
}

std::vector<NamedDigest> digests_of(const JsonValue& value) {
  std::vector<NamedDigest> out;
  each(value, [&](const JsonValue& v) {
    out.push_back({v["name"].string(), v["digest"].string()});
  });
  return out;
}

/// The bits of each value, 8 hexadecimal digits a token.
std::string floats_text(const std::vector<float>& values) {
  std::string out;
  for (const float value : values) out += hex(std::bit_cast<uint32_t>(value), 8);
  return out;
}

std::vector<float> floats_of(const JsonValue& value) {
  const std::string& text = value.string();
  if (text.size() % 8 != 0) {
    throw value.error("found " + std::to_string(text.size()) +
                      " digits, expected 8 for each binary32 number");
  }
  std::vector<float> out;
  for (size_t i = 0; i < text.size(); i += 8) {
    const auto bits = bits_of(value, std::string_view(text).substr(i, 8));
    out.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  return out;
}

std::string log_probs_json(const StepLogProbs& step) {
  std::string samples;
  for (size_t i = 0; i < step.samples.size(); ++i) {
    const rlreplay::Sample& sample = step.samples[i];
    std::string mask;
    for (const uint8_t bit : sample.loss_mask) mask += bit == 0 ? '0' : '1';
    JsonLine line;
    line.text("id", shortest(sample.id, 16)).integer("prompt", sample.prompt_length);
    line.text("mask", mask).text("log_probs", floats_text(step.log_probs[i]));
    samples += (samples.empty() ? "" : ",") + line.str();
  }
  JsonLine line;
  line.text("rollout", step.rollout).text("tokens", step.tokens);
  return line.json("samples", "[" + samples + "]").str();
}

StepLogProbs log_probs_of(const JsonValue& value) {
  StepLogProbs step{value["rollout"].string(), value["tokens"].string()};
  each(value["samples"], [&](const JsonValue& v) {
    rlreplay::Sample sample;
    sample.id = bits_of(v, v["id"].string());
    for (const char bit : v["mask"].string()) sample.loss_mask.push_back(bit == '0' ? 0 : 1);
    sample.prompt_length = v["prompt"].integer(0, int64_t{1} << 40);
    step.log_probs.push_back(floats_of(v["log_probs"]));
    if (step.log_probs.back().size() != sample.loss_mask.size()) {
      throw v.error("found " + std::to_string(step.log_probs.back().size()) +
                    " log-probabilities, expected one for each of the mask's " +
                    std::to_string(sample.loss_mask.size()) + " tokens");
    }
    sample.tokens.resize(static_cast<size_t>(sample.prompt_length) + sample.loss_mask.size());
    step.samples.push_back(std::move(sample));
  });
  return step;
}

}  // namespace

std::string to_json(const Measurement& m) {
  JsonLine line;
  line.text("kind", measure::to_string(m.kind)).text("problem", m.problem);
  line.integer("exit_code", m.exit_code);
  line.integer("evidence", static_cast<int64_t>(m.evidence));
  line.json("metrics", json_list(m.metrics, metric_json)).json("steps", json_list(m.steps));
  line.json("weights", json_list(m.weights, digest_json));
  line.json("log_probs", json_list(m.log_probs, log_probs_json));
  line.json("inputs", json_list(m.inputs, digest_json)).text("content", m.content);
  line.text("output", m.output).text("dump", m.dump).text("build", m.build);
  return line.text("date", m.date).number("seconds", m.seconds).str();
}

Measurement measurement_of(const JsonValue& value) {
  Measurement m;
  m.kind = measure::run_kind_of(value["kind"].string());
  m.problem = value["problem"].string();
  m.exit_code = static_cast<int>(value["exit_code"].integer(-256, 1024));
  m.evidence = static_cast<measure::Evidence>(
      value["evidence"].integer(0, static_cast<int64_t>(measure::Evidence::kDump)));
  each(value["metrics"], [&](const JsonValue& v) { m.metrics.push_back(metric_of(v)); });
  each(value["steps"], [&](const JsonValue& v) { m.steps.push_back(v.string()); });
  m.weights = digests_of(value["weights"]);
  each(value["log_probs"], [&](const JsonValue& v) { m.log_probs.push_back(log_probs_of(v)); });
  m.inputs = digests_of(value["inputs"]);
  m.content = value["content"].string();
  m.output = value["output"].string();
  m.dump = value["dump"].string();
  m.build = value["build"].string();
  m.date = value["date"].string();
  m.seconds = value["seconds"].number();
  if (m.weights.size() != m.steps.size()) {
    throw value.error("found " + std::to_string(m.weights.size()) +
                      " digests of weights, expected one for each of the " +
                      std::to_string(m.steps.size()) + " steps");
  }
  return m;
}

}  // namespace rlreplay::bisect
