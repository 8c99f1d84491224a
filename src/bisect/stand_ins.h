#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "src/bisect/git.h"
#include "src/bisect/sampler.h"

namespace rlreplay::bisect {

/// The candidate that a revision is.
using CandidateOf = std::function<Candidate(const Revision&)>;

/// Whose runs tell of a revision. Where it is equal to another in all that runs are declared to
/// depend on, that one's are enough to go on with, but nothing is named by them: the declaration
/// may lack something.
class StandIns {
 public:
  StandIns(std::vector<Revision> history, Sampler& sampler, CandidateOf candidate_of);

  /// The revision that is run in a revision's place: itself where it has run or none like it has.
  [[nodiscard]] Revision of(const Revision& revision);
  /// From now on its own runs alone tell of a revision.
  void dismiss(const Revision& revision) { dismissed_.insert(revision.id); }

  /// What revisions have in common that stand for each other.
  [[nodiscard]] std::string kind_of(const Revision& revision) const;

 private:
  std::vector<Revision> history_;
  Sampler& sampler_;
  CandidateOf candidate_of_;
  std::map<std::string, Revision> first_;  // by kind: the first that was asked for, or is stored
  std::set<std::string> dismissed_;
};

/// `equal to it in what --path names`, and what is to be done where that was too little.
[[nodiscard]] std::string too_few_paths(const Revision& revision, const Revision& stand_in,
                                        const std::string& expected, const std::string& found);

}  // namespace rlreplay::bisect
