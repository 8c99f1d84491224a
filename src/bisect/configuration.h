#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace rlreplay::bisect {

/// The names that lead to a value: of nested settings several.
using KeyPath = std::vector<std::string>;

/// Settings of a run: values as JSON texts, so that 1, "1" and true are three.
struct Configuration {
  enum class Form { kJson, kYaml };
  std::map<KeyPath, std::string> values = {};
  Form form = Form::kJson;
};

/// Of `tp=4,lr=1e-3`: what reads as a number, true, false or null is one, all else a text.
/// Errors: kUsage.
[[nodiscard]] Configuration parse_configuration(const std::string& text);

/// Of a JSON file, whose lists are single values, or of a YAML file of one flat mapping.
/// Errors: kIncomplete, kCorrupt; kUnsupported for other forms.
[[nodiscard]] Configuration read_configuration(const std::string& path);

/// Whether a path names a file of settings by its ending.
[[nodiscard]] bool is_configuration_file(const std::string& path);

/// As a file of its form.
std::string file_text(const Configuration& configuration);

/// `optimizer.lr`
std::string key_name(const KeyPath& path);

/// One key in which two configurations differ; nothing: it is not set.
struct KeyDifference {
  KeyPath path;
  std::optional<std::string> good, bad;

  /// `lr: 0.001 -> 0.002`
  std::string describe() const;
};

/// In the order of their keys.
[[nodiscard]] std::vector<KeyDifference> differences_of(const Configuration& good,
                                                        const Configuration& bad);

/// The good configuration with some of the differences.
Configuration with_differences(Configuration good, const std::vector<KeyDifference>& differences,
                               const std::set<size_t>& chosen);

}  // namespace rlreplay::bisect
