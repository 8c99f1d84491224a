#include "src/bisect/stand_ins.h"

#include <algorithm>
#include <utility>

namespace rlreplay::bisect {

StandIns::StandIns(std::vector<Revision> history, Sampler& sampler, CandidateOf candidate_of)
    : history_(std::move(history)), sampler_(sampler), candidate_of_(std::move(candidate_of)) {}

std::string StandIns::kind_of(const Revision& revision) const {
  const Candidate candidate = candidate_of_(revision);
  return candidate.declared.empty() ? key_of(candidate) : candidate.declared;
}

Revision StandIns::of(const Revision& revision) {
  const Candidate candidate = candidate_of_(revision);
  if (candidate.declared.empty() || dismissed_.contains(revision.id)) return revision;
  if (!sampler_.of(candidate).empty()) return revision;
  const auto known = first_.find(candidate.declared);
  if (known != first_.end()) return known->second;
  const auto stored = std::ranges::find_if(history_, [&](const Revision& other) {
    const Candidate it = candidate_of_(other);
    return it.declared == candidate.declared && !sampler_.of(it).empty();
  });
  return first_[candidate.declared] = stored == history_.end() ? revision : *stored;
}

std::string too_few_paths(const Revision& revision, const Revision& stand_in,
                          const std::string& expected, const std::string& found) {
  return revision.short_id() + " was " + expected + " by a run of " + stand_in.short_id() +
         ", which is equal to it in what --path names, and its own run is " + found +
         ": runs depend on more than these paths, so no revision can be blamed; name the others "
         "by --path too, or leave --path out";
}

}  // namespace rlreplay::bisect
