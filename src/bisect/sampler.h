#pragma once

#include <functional>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "src/replay/measure/executor.h"

namespace rlreplay::bisect {

using measure::Build;
using measure::Candidate;
using measure::Measurement;

/// One measurement of a candidate.
struct MeasuredRun {
  Measurement measurement;
  bool stored = false;  // by an earlier search
};

/// Where measurements outlive a search. Candidates of equal content and settings are one.
class MeasurementStore {
 public:
  MeasurementStore() = default;
  virtual ~MeasurementStore() = default;
  MeasurementStore(const MeasurementStore&) = delete;
  MeasurementStore& operator=(const MeasurementStore&) = delete;

  /// All stored measurements of a candidate, in the order in which they were made.
  virtual std::vector<Measurement> load(const Candidate& candidate) = 0;
  /// Stores a measurement, which is on disk when this returns. Errors: kEnvironment.
  virtual void save(const Candidate& candidate, const Measurement& measurement) = 0;
};

/// The measurements of candidates: those that are stored, and from then on those that it makes.
class Sampler {
 public:
  /// `store` may be null. `drop` removes what a run left.
  Sampler(measure::Executor& executor, MeasurementStore* store,
          std::function<void(const Measurement&)> drop = {});

  /// All measurements of a candidate, the oldest first.
  const std::vector<MeasuredRun>& of(const Candidate& candidate);
  /// Makes one more. Errors: kLimit where that is more than the user allows; those of the executor.
  const MeasuredRun& add(const Candidate& candidate, Build build);

  /// Measures each candidate that has no measurement yet, at once where that is possible; fewer of
  /// them where the user does not allow as many. Errors: those of the executor.
  void add_first(std::span<const Candidate> candidates);

  /// Drops what a candidate's runs left: nobody will read it any more.
  void drop_outputs(const Candidate& candidate);
  /// The same, unless it is the good end: runs are told where what its runs left lies.
  void drop_outputs_unless(const Candidate& candidate, const Candidate& good);

  /// How many were made here.
  size_t runs() const { return runs_; }
  /// How much memory the numbers of all measurements take.
  size_t bytes() const;
  void set_most(size_t most) { most_ = most; }

 private:
  const MeasuredRun& keep(const Candidate& candidate, Measurement measurement);
  void share(Measurement& measurement);
  std::vector<MeasuredRun>& samples(const Candidate& candidate);

  measure::Executor& executor_;
  MeasurementStore* store_;
  std::function<void(const Measurement&)> drop_;
  std::map<std::string, std::vector<MeasuredRun>> samples_;  // by key
  std::vector<std::vector<measure::Metric>> distinct_;       // which runs that left the same hold
  size_t runs_ = 0, most_ = std::numeric_limits<size_t>::max();
};

/// Equal for candidates of which one run is enough.
[[nodiscard]] std::string key_of(const Candidate& candidate);

/// How many different builds the measurements are of.
[[nodiscard]] size_t count_builds(const std::vector<MeasuredRun>& samples);

}  // namespace rlreplay::bisect
