#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace rlreplay::bisect {

/// The names that lead to a value, several for a nested one; those of YAML are kept as written.
using KeyPath = std::vector<std::string>;

/// Settings of a run: values as texts of their form, so that 1, "1" and true are three, and a run
/// gets of each what stands in the user's file.
struct Configuration {
  enum class Form { kJson, kYaml };
  std::map<KeyPath, std::string> values = {};
  Form form = Form::kJson;
};

/// Reads `tp=4,lr=1e-3`: what reads as a number, true, false or null is one, all else a text.
/// Errors: kUsage.
[[nodiscard]] Configuration parse_configuration(const std::string& text);

/// Reads a JSON or YAML file; a list is one value.
/// Errors: kIncomplete, kCorrupt; kUnsupported for other forms.
[[nodiscard]] Configuration read_configuration(const std::string& path);

/// Reads an end of a search: a file of settings, or KEY=VALUE,... Errors: as of the two above.
[[nodiscard]] Configuration configuration_of(const std::string& end);

/// Whether a path names a file of settings by its ending.
[[nodiscard]] bool is_configuration_file(const std::string& path);

/// The text of a file of these settings, in their form.
[[nodiscard]] std::string file_text(const Configuration& configuration);

/// Writes that file into a folder, and returns its path. Errors: kEnvironment.
[[nodiscard]] std::string write_configuration(const Configuration& configuration,
                                              const std::string& folder);

/// `optimizer.lr`; a name with a dot of its own is quoted.
[[nodiscard]] std::string key_name(const KeyPath& path);

/// One key in which two configurations differ; nothing: it is not set.
struct KeyDifference {
  KeyPath path;
  std::optional<std::string> good, bad;

  /// `lr: 0.001 -> 0.002`
  std::string describe() const;
};

/// The differences of two configurations, in the order of their keys. What is a value in the one
/// and nested settings in the other is one difference. Errors: kUsage where they have not one form.
[[nodiscard]] std::vector<KeyDifference> differences_of(const Configuration& good,
                                                        const Configuration& bad);

/// The good configuration with some of the differences.
[[nodiscard]] Configuration with_differences(Configuration good,
                                             const std::vector<KeyDifference>& differences,
                                             const std::set<size_t>& chosen);

}  // namespace rlreplay::bisect
