#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "format/dataset.h"
#include "format/dump_reader.h"

namespace rlreplay::replay {

/// Collects what groups of a dump hold beside what is written of them.
class Unsaid {
 public:
  /// `form`: who has no room for the rest, "lines of JSON".
  explicit Unsaid(std::string form) : form_(std::move(form)) {}

  /// `written`: the datasets that an import makes of what is written. Events are another matter.
  /// Errors: FormatError where a dataset is not sound.
  void compare(const format::DumpReader& dump, const format::UnitReader& unit,
               const std::string& group, const std::vector<format::Dataset>& written);
  /// The same of a group that several units hold, taken as one.
  void compare_joined(const format::DumpReader& dump, const std::string& kind,
                      const std::string& group, const std::vector<format::Dataset>& written);
  /// A rollout or step of which nothing is written.
  void add_empty(const format::UnitReader& unit);
  /// What was collected, with the reasons.
  std::vector<std::string> lines() const;

 private:
  void add_unknown(const format::UnitReader& unit, const std::string& group);

  std::string form_;
  std::map<std::string, std::map<std::string, size_t>> fields_;  // by kind: in how many groups
  std::map<std::string, size_t> empty_;                          // by kind
};

}  // namespace rlreplay::replay
