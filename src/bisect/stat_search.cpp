#include "src/bisect/stat_search.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <utility>

#include "src/base/error.h"
#include "src/base/words.h"
#include "src/bisect/change_point.h"
#include "src/replay/measure/metric_selection.h"

namespace rlreplay::bisect {
namespace {

using measure::Evidence;
using measure::Metric;
using measure::RunKind;

constexpr size_t kLeastEndRuns = 3;  // of two runs nobody sees how far a third may lie
constexpr size_t kMostRuns = 2000;   // a search that needs more has no end

std::string decimal_text(double value) { return measure::MetricValue{value}.describe(); }

std::string percent(double probability) { return formatted("%.1f %%", 100 * probability); }

/// The one number that counts. Errors: kUsage.
std::string metric_name(const Criterion& criterion, const Measurement& run) {
  std::vector<std::string> names;
  const measure::MetricSelection selection(criterion);
  for (const Metric& metric : run.metrics) {
    if (selection.has(metric.name)) names.push_back(metric.name);
  }
  if (names.size() == 1) return names.front();
  throw Error(ErrorCode::kUsage, "--stat follows one recorded number: name it by --metric; there " +
                                     std::string(names.empty() ? "is none" : "are ") +
                                     joined(names, ", "));
}

/// Runs both ends, then time and again the revision that tells most of where the change is, until
/// one place is probable enough or no run helps. The n-th use of a candidate is its n-th run, a
/// stored one where there is one.
class StatSearch {
 public:
  StatSearch(const std::vector<Revision>& history, const SearchPlan& plan, Sampler& sampler,
             const CandidateOf& candidate_of, const Listener& listener)
      : history_(history),
        plan_(plan),
        sampler_(sampler),
        candidate_of_(candidate_of),
        listener_(listener) {
    finding_.good = history.front();
    finding_.bad = history.back();
    finding_.history = history;
    finding_.revisions = history.size() - 1;
  }

  Finding find() {
    try {
      if (run_ends()) search();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kLimit) throw;
      finding_.cut = true;
      conclude(error.what());
    }
    return finding_;
  }

 private:
  bool run_ends() {
    for (const size_t place : {size_t{0}, history_.size() - 1}) {
      const Purpose purpose = place == 0 ? Purpose::kGoodEnd : Purpose::kBadEnd;
      for (size_t i = 0; i < std::max(plan_.end_runs, kLeastEndRuns); ++i) {
        if (run(place, purpose)) continue;
        finding_.reason = "a run of the " + std::string(to_string(purpose)) +
                          " cannot be judged: " + finding_.trials.back().judgement.reason;
        return false;
      }
    }
    return true;
  }

  void search() {
    for (size_t runs = 0; runs < kMostRuns; ++runs) {
      if (points_->best().probability >= *plan_.confidence) return conclude("");
      // Not before a run at every fourth place and 20 more: too few lie beside each change.
      if (points_->unchanged() >= *plan_.confidence && runs >= history_.size() / 4 + 20) break;
      const size_t place = points_->next();
      if (!run(place, Purpose::kSearch)) points_->skip(place);
    }
    conclude("so many runs tell the ends no better apart");
  }

  /// One more value of a place; false where its run has none.
  bool run(size_t place, Purpose purpose) {
    const Revision& revision = history_[place];
    const Candidate candidate = candidate_of_(revision);
    const size_t n = used_[key_of(candidate)]++;
    const bool there = n < sampler_.of(candidate).size();
    if (!there && listener_.begin) listener_.begin(revision, 1);
    if (!there) sampler_.add(candidate, Build::kAny);
    const MeasuredRun sample = sampler_.of(candidate)[n];
    if (!points_) begin(sample.measurement);
    const Judgement judgement = judge(place, sample.measurement);
    const Origin origin = !there ? Origin::kRun : sample.stored ? Origin::kStored : Origin::kRun;
    finding_.trials.push_back({revision, judgement, purpose, origin, sample.measurement.seconds,
                               sample.measurement.date});
    if (listener_.end) listener_.end(finding_.trials.back());
    sampler_.drop_outputs_unless(candidate, candidate_of_(history_[0]));
    return judgement.verdict != Verdict::kSkip;
  }

  void begin(const Measurement& first) {
    finding_.evidence = first.evidence;
    const bool numbers = first.kind == RunKind::kRan && first.evidence != Evidence::kExitCode;
    points_.emplace(history_.size() - 1,
                    numbers ? ChangePoint::Values::kNumbers : ChangePoint::Values::kVerdicts);
    if (!numbers) return;
    metric_ = metric_name(plan_.criterion, first);
    finding_.criterion = plan_.criterion;
    finding_.criterion->metrics = {metric_};
  }

  Judgement judge(size_t place, const Measurement& run) {
    if (metric_.empty()) {
      const Judgement judgement = measure::judge(plan_.criterion, nullptr, run);
      if (judgement.verdict != Verdict::kSkip)
        add(place, judgement.verdict == Verdict::kBad ? 1 : 0);
      return judgement;
    }
    if (run.kind != RunKind::kRan) return {Verdict::kSkip, run.problem};
    const Metric* metric = find_metric(run.metrics, metric_);
    if (metric == nullptr) return {Verdict::kSkip, "there is no " + metric_};
    long double sum = 0;  // which does not overflow
    for (const auto& value : metric->values) sum += value.text.empty() ? value.number : NAN;
    const auto mean = static_cast<double>(sum / static_cast<long double>(metric->values.size()));
    if (!std::isfinite(mean)) return {Verdict::kSkip, metric_ + " is no finite number"};
    add(place, mean);
    return {nearer_to_bad(mean) ? Verdict::kBad : Verdict::kGood,
            metric_ + " " + decimal_text(mean)};
  }

  void add(size_t place, double value) {
    points_->add(place, value);
    values_.emplace_back(place, value);
  }

  /// Whether a value lies nearer to the bad end's mean than to the good end's. It is only shown:
  /// nothing is concluded from it.
  bool nearer_to_bad(double value) const {
    const double good = mean_of(0, 1), bad = mean_of(history_.size() - 1, history_.size());
    return std::fabs(value - bad) < std::fabs(value - good);
  }

  double mean_of(size_t begin, size_t end) const {
    long double sum = 0, count = 0;  // which do not overflow
    for (const auto& [place, value] : values_) {
      if (place >= begin && place < end) sum += value, count += 1;
    }
    return count > 0 ? static_cast<double>(sum / count) : NAN;
  }

  /// Fills in what is known; `undecided` says why it is not more, and is empty where it is all.
  void conclude(const std::string& undecided) {
    if (!points_) {
      finding_.reason = undecided;
      return;
    }
    const auto answer = undecided.empty() ? points_->best() : points_->interval(*plan_.confidence);
    finding_.suspects.assign(history_.begin() + static_cast<ptrdiff_t>(answer.first),
                             history_.begin() + static_cast<ptrdiff_t>(answer.last) + 1);
    finding_.parent = history_[answer.first - 1];
    finding_.confidence = answer.probability;
    for (const auto& [place, value] : values_) {
      ++(place < answer.first ? finding_.parent_runs : finding_.culprit_runs);
    }
    finding_.noise = (metric_.empty() ? "bad runs" : metric_) + ": on average " +
                     decimal_text(mean_of(0, answer.first)) + " before and " +
                     decimal_text(mean_of(answer.last, history_.size())) + " behind";
    finding_.confirmed = undecided.empty();
    finding_.result = undecided.empty() ? SearchResult::kFound : SearchResult::kCannotJudge;
    if (undecided.empty()) return;
    if (points_->unchanged() >= *plan_.confidence) finding_.result = SearchResult::kNothing;
    finding_.reason = undecided + ": that nothing changes has a probability of " +
                      percent(points_->unchanged()) + ", the most probable revision, " +
                      history_[points_->best().first].short_id() + ", has " +
                      percent(points_->best().probability);
  }

  const std::vector<Revision>& history_;
  const SearchPlan& plan_;
  Sampler& sampler_;
  const CandidateOf& candidate_of_;
  const Listener& listener_;
  std::optional<ChangePoint> points_;
  std::string metric_;                             // empty: exit codes
  std::vector<std::pair<size_t, double>> values_;  // place and value
  std::map<std::string, size_t> used_;             // samples, by key
  Finding finding_;
};

}  // namespace

Finding find_change(const std::vector<Revision>& history, const SearchPlan& plan, Sampler& sampler,
                    const CandidateOf& candidate_of, const Listener& listener) {
  return StatSearch(history, plan, sampler, candidate_of, listener).find();
}

}  // namespace rlreplay::bisect
