#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "format/rule.h"

namespace rlreplay::format {

/// Gathers the breaches of rules that are looked for together, so that the one of the earliest rule
/// is reported wherever in a record or file it lies; of one rule the first that was found.
class Faults {
 public:
  explicit Faults(std::string path) : path_(std::move(path)) {}

  void add(Rule rule, const std::string& message, const std::string& dataset = {},
           std::optional<uint64_t> offset = {}) {
    add(FormatError(rule, message, path_, dataset, offset));
  }
  void add(const FormatError& fault) {
    if (!first_ || fault.rule() < first_->rule()) first_ = fault;
  }
  /// Runs `act`, taking a breach that it throws as one found.
  template <class Act>
  void gather(Act&& act) {
    try {
      act();
    } catch (const FormatError& fault) {
      add(fault);
    }
  }

  /// Throws the earliest rule's breach, if there is one.
  void raise() const {
    if (first_) throw FormatError(*first_);
  }

 private:
  std::string path_;
  std::optional<FormatError> first_;
};

/// Runs `act` on a part of a file that begins at byte `begin`: a breach that it throws says where
/// in the file it lies, at the beginning of the part where it knows no better.
template <class Act>
[[nodiscard]] auto at_byte(uint64_t begin, Act&& act) {
  try {
    return act();
  } catch (const FormatError& fault) {
    const Problem& p = fault.problem();
    throw FormatError(p.rule, p.message, p.path, p.dataset, begin + p.offset.value_or(0));
  }
}

}  // namespace rlreplay::format
