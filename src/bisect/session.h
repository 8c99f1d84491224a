#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/base/descriptor.h"
#include "src/bisect/changes.h"
#include "src/bisect/finding.h"
#include "src/bisect/runner.h"
#include "src/bisect/sampler.h"

namespace rlreplay::bisect {

/// What a measurement depends on beside the candidate: commands, limits, what the good end is, the
/// processor and the variables of the environment but those of a terminal or a login.
[[nodiscard]] std::string context_of(const Recipe& recipe, const Candidate& good);

/// Measurements in a folder, a file a candidate and a line a measurement, each on disk before the
/// next run begins. What a kill has left of a line is not read.
class DiskStore : public MeasurementStore {
 public:
  /// The good end, `good`, is measured again where what its first run left is not there any more:
  /// runs are told where it lies.
  DiskStore(std::string folder, std::string context, Candidate good);

  std::vector<Measurement> load(const Candidate& candidate) override;
  void save(const Candidate& candidate, const Measurement& measurement) override;

 private:
  std::string path_of(const Candidate& candidate) const;

  std::string folder_, context_;
  Candidate good_;
};

/// What a search goes on by.
struct SessionTerms {
  std::vector<std::string> words;  // of its command
  std::string good, bad;           // the hashes of its ends
  bool fresh = false;              // whether its runs are stored nowhere
};

/// The words of a search, where it began, and what it has judged: a folder that outlives it.
class Session {
 public:
  /// Begins the session of these words, or begins it again: what was judged is told anew. Where the
  /// environment is another by now, so that nothing stored counts, standard error says what is.
  /// Errors: kUsage where the same search is running; kEnvironment.
  Session(const std::string& root, const SessionTerms& terms);

  /// Where its runs leave things. Those that an interrupted run left are gone.
  std::string runs() const { return folder_ + "/runs"; }

  /// One line of the journal, on disk when it returns; of the submodule that the search has
  /// entered, if any. Errors: kEnvironment.
  void add(const Trial& trial, const std::string& dependency = {}) const;
  void end(const Finding& finding) const;
  void end(const Changes& changes) const;

 private:
  std::string folder_;
  Descriptor lock_;
};

/// A session as it lies on disk.
struct StoredSession {
  std::string folder;
  std::string place;               // the folder where it began
  std::vector<std::string> words;  // of its command
  struct Line {
    std::string revision, subject, verdict, reason, purpose;
    double seconds = 0;
    std::string dependency = {};  // the submodule whose revision it is; empty: the repository's own
  };
  std::vector<Line> lines;
  std::string result = {};                 // empty: it has not ended
  bool cut = false;                        // whether --max-runs ended it
  bool confirmed = false;                  // whether one suspect is the culprit
  std::vector<std::string> suspects = {};  // hashes
  std::string good = {}, bad = {};  // the same, of the ends; empty where it does not say them
  bool fresh = false;               // whether its runs are stored nowhere
};

/// How a search that was cut short goes on: the end of a sentence that says so.
[[nodiscard]] std::string going_on(bool fresh);

/// Whether a session looked for every change: what it judged is no bisection.
[[nodiscard]] inline bool is_of_changes(const StoredSession& session) {
  return !session.words.empty() && session.words.front() == "changes";
}

/// The session that began last. Errors: kUsage where there is none.
[[nodiscard]] StoredSession last_session(const std::string& root);

/// `git bisect log` of a session, which `git bisect replay` reads: without what was judged inside
/// of dependencies. Errors: kUsage for one of changes.
[[nodiscard]] std::string bisect_log(const StoredSession& session);

/// Removes all that searches have stored below the root but for sessions that run, whose
/// measurements stay too; the sessions that stay.
[[nodiscard]] size_t remove_stored(const std::string& root);

}  // namespace rlreplay::bisect
