#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/error.h"
#include "src/base/sample.h"
#include "src/replay/measure/metrics.h"

namespace rlreplay::measure {

/// What came of a run.
enum class RunKind {
  kRan,          // it came to its end
  kCannotSay,    // it says so itself: exit code 125
  kCrashed,      // a signal, a command that is not there, an exception
  kHung,         // the time limit ended it
  kBuildFailed,  // nothing was run
  kNoCheckout,   // nothing was built
  kUnreadable    // it left something, from which no numbers can be read
};

/// Where the numbers of a run come from.
enum class Evidence { kNone, kExitCode, kMetrics, kDump };

/// `a dump`, `metrics.json`, ...
[[nodiscard]] std::string to_string(Evidence evidence);

/// A digest under the name of what it is of: a step, or an input of the run.
struct NamedDigest {
  std::string name;
  std::string digest;  // empty where it was not recorded

  friend bool operator==(const NamedDigest&, const NamedDigest&) = default;
};

/// The input by which a dump says what its digests mean.
inline constexpr const char* kContractInput = "the contract of the bits";

/// The log-probabilities of a forward pass. Of the samples only what places and counts tokens.
struct StepLogProbs {
  std::string rollout;
  std::string tokens;                              // the hash of the rollout's tokens
  std::vector<Sample> samples = {};                // ascending by id
  std::vector<std::vector<float>> log_probs = {};  // [sample][response token]
};

/// What happened when a candidate was run. What is said of it is a matter of rules (judgement.h).
struct Measurement {
  RunKind kind = RunKind::kUnreadable;
  std::string problem = {};          // what happened; of kRan only what an exit code does not say
  std::optional<Error> unread = {};  // of kUnreadable the error of reading; not stored
  int exit_code = 0;                 // of the run; 128 and the signal that ended it
  Evidence evidence = Evidence::kNone;

  std::vector<Metric> metrics = {};          // of metrics.json, or the scalars of a dump; by name
  std::vector<std::string> steps = {};       // of a dump, as reports call them
  std::vector<NamedDigest> weights = {};     // after each of them
  std::vector<StepLogProbs> log_probs = {};  // of each of them, where they were asked for
  std::vector<NamedDigest> inputs = {};      // what a dump's run was given: state, tokens
  std::string content = {};                  // the content root of a dump

  std::string output = {};  // the folder that the run was told to leave things in
  std::string dump = {};    // a folder

  std::string build = {};  // of which build; runs of one build share it
  std::string date = {};   // when, UTC: 2026-11-25T14:02:11Z
  double seconds = 0;      // with its build
};

/// A word that a file can hold: `ran`, `crashed`, ...
[[nodiscard]] std::string_view to_string(RunKind kind);

/// The kind that a word of to_string() names. Errors: kCorrupt for any other word.
[[nodiscard]] RunKind run_kind_of(std::string_view word);

}  // namespace rlreplay::measure
