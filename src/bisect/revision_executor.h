#pragma once

#include <functional>
#include <list>
#include <string>

#include "src/bisect/revision_slot.h"

namespace rlreplay::bisect {

/// Runs revisions in slots: one by one in the first, so that no path can make a difference between
/// two, several at once in all of them.
class RevisionExecutor : public measure::Executor {
 public:
  /// `reference_of` says what the good end left; empty before there is something. `slots`: how many
  /// run at once at most.
  RevisionExecutor(const Repository& repository, const Recipe& recipe, Workspace& workspace,
                   const Interrupt& interrupt, std::function<std::string()> reference_of,
                   size_t slots);

  measure::Measurement measure(const measure::Candidate& candidate, measure::Build build) override;
  void measure_all(std::span<const measure::Candidate> candidates,
                   const Measured& measured) override;

 private:
  SlotGround ground_;
  std::function<std::string()> reference_of_;
  std::list<RevisionSlot> slots_;
};

}  // namespace rlreplay::bisect
