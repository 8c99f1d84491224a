#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "format/dump_reader.h"
#include "format/rule.h"
#include "src/base/error.h"

namespace rlreplay::replay {

/// The rollouts of a dump that hold what cannot be read: a checker judges nothing of them and of
/// their steps, and goes on with the others.
class UnreadRollouts {
 public:
  /// What ended the reading of a rollout; `problem`: of a unit that breaks a rule.
  struct Fault {
    Error error;
    std::optional<format::Problem> problem;
  };

  UnreadRollouts() = default;
  /// Those with units in which a check of the format found `problems`.
  UnreadRollouts(const format::DumpReader& dump, const std::vector<format::Problem>& problems);

  [[nodiscard]] bool contains(int64_t rollout) const { return ids_.contains(rollout); }
  [[nodiscard]] bool empty() const { return ids_.empty(); }
  /// Whether a state is damaged, or a unit of an extension: what an import kept and found.
  [[nodiscard]] bool lacks_states() const { return states_; }
  [[nodiscard]] bool lacks_extensions() const { return extensions_; }

  /// Does what reads a rollout, unless it is one of these; what the input has against that makes it
  /// one of them. Errors: others.
  template <class Work>
  void guard(int64_t rollout, const Work& work) {
    if (contains(rollout)) return;
    try {
      work();
    } catch (const format::FormatError& error) {
      add(rollout, {error, error.problem()});
    } catch (const Error& error) {
      if (!ends_reading(error)) throw;
      add(rollout, {error, std::nullopt});
    }
  }

  const std::vector<Fault>& faults() const { return faults_; }
  /// A sentence on what was not judged; empty where all was.
  std::string text() const;

 private:
  [[nodiscard]] static bool ends_reading(const Error& error);
  void add(int64_t rollout, Fault fault);

  std::set<int64_t> ids_;
  std::vector<Fault> faults_;
  bool states_ = false, extensions_ = false;
};

}  // namespace rlreplay::replay
