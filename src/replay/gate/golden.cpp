#include "src/replay/gate/golden.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "src/base/natural_order.h"

namespace rlreplay::gate {
namespace {

constexpr std::string_view kAbout = "about ", kEnvironment = "environment ", kOption = "option ",
                           kInput = "input ", kTolerance = "tolerance ",
                           kQuarantine = "quarantine ";

bool is_gradient_norm(std::string_view key) { return key.find("grad_norm") != key.npos; }

void prefixed(std::string_view prefix, const GoldenEntries& from, GoldenEntries& to) {
  for (const auto& [key, value] : from) to.emplace(std::string(prefix) + key, value);
}

}  // namespace

Golden golden_of(const GoldenFile& file, const std::string& where) {
  Golden out{.made_by = file.made_by};
  GoldenEntries quarantine;
  for (const auto& [key, value] : file.entries) {
    const auto rest = [&, &line = key](std::string_view prefix) {
      return line.substr(prefix.size());
    };
    if (key.starts_with(kAbout)) {
      out.about.emplace(rest(kAbout), value);
    } else if (key.starts_with(kEnvironment)) {
      out.environment.emplace(rest(kEnvironment), value);
    } else if (key.starts_with(kOption)) {
      out.options.emplace(rest(kOption), value);
    } else if (key.starts_with(kInput)) {
      out.inputs.emplace(rest(kInput), value);
    } else if (key.starts_with(kTolerance)) {
      out.tolerances.push_back(parse_tolerance(rest(kTolerance), value, where));
    } else if (key.starts_with(kQuarantine)) {
      quarantine.emplace(rest(kQuarantine), value);
    } else {
      out.values.emplace(key, value);
    }
  }
  if (!quarantine.empty()) out.quarantine = quarantine_of(quarantine, where);
  return out;
}

GoldenFile file_of(const Golden& golden) {
  GoldenFile out{golden.made_by, golden.values};
  prefixed(kAbout, golden.about, out.entries);
  prefixed(kEnvironment, golden.environment, out.entries);
  prefixed(kOption, golden.options, out.entries);
  prefixed(kInput, golden.inputs, out.entries);
  if (golden.quarantine) prefixed(kQuarantine, lines_of(*golden.quarantine), out.entries);
  for (const Tolerance& t : golden.tolerances) {
    out.entries.emplace(std::string(kTolerance) + t.keys, to_string(t));
  }
  return out;
}

Golden read(const std::string& path) { return golden_of(read_golden(path), path); }

void write(const std::string& path, const Golden& golden) { write_golden(path, file_of(golden)); }

std::string about(const Golden& golden, const std::string& name) {
  const auto found = golden.about.find(name);
  return found == golden.about.end() ? std::string() : found->second;
}

std::string emptiness_of(const GoldenEntries& values) {
  if (values.empty()) return "it holds no value";
  bool gradients = false, gradient = false, number = false, nonzero = false;
  const std::string* bad = nullptr;  // the first step's
  for (const auto& [key, value] : values) {
    const std::optional<double> x = golden_number(value);
    if (value == "nan" || value == "nanf" || (x && !std::isfinite(*x))) {
      if (bad == nullptr || natural_less(key, *bad)) bad = &key;
    }
    number = number || x;
    nonzero = nonzero || !x || *x != 0;
    if (!x || !is_gradient_norm(key)) continue;
    gradients = true;
    gradient = gradient || *x != 0;
  }
  if (bad != nullptr) return *bad + " is " + values.at(*bad) + ", and no finite number";
  if (gradients && !gradient) {
    return "no step has a gradient, so that hardly any change could be seen: take more samples or "
           "steps, or a reward that differs within a group";
  }
  return number && !nonzero ? "all of its values are 0" : "";
}

}  // namespace rlreplay::gate
