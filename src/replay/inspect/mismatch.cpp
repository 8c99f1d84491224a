#include "src/replay/inspect/mismatch.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "src/base/error.h"
#include "src/base/percentile.h"
#include "src/base/same_value.h"
#include "src/base/words.h"
#include "src/objective/token_objective.h"
#include "src/replay/record/dump_meta.h"
#include "src/replay/record/imported_samples.h"
#include "src/replay/record/recorded_step.h"

namespace rlreplay::replay {
namespace {

constexpr int kLowestDecade = -8;  // of 10

double estimate(engine::KlType type, double d) {
  return engine::kl_of_difference(type, engine::Dialect::kSlime, -d).value;
}

/// What a pair of log-probabilities adds to each sum that it is part of.
struct Pair {
  bool different = false, finite = false, clipped = false;
  double distance = 0, k1 = 0, k2 = 0, k3 = 0, weight = 1;

  Pair(const MismatchOptions& options, double train, double recorded)
      : different(!same_value(train, recorded)),
        finite(std::isfinite(train) && std::isfinite(recorded)) {
    if (!finite) return;
    const double d = train - recorded;
    if (d != 0) estimate_by(d);
    clipped = weight < options.tis_low || weight > options.tis_high;
  }

 private:
  // Of equal numbers, which are most, it would cost more than all else and give what stands above.
  void estimate_by(double d) {
    distance = std::abs(d);
    k1 = estimate(engine::KlType::kK1, d);
    k2 = estimate(engine::KlType::kK2, d);
    k3 = estimate(engine::KlType::kK3, d);
    weight = std::exp(d);
  }
};

void add(MismatchSums& to, const Pair& pair) {
  ++to.tokens;
  if (pair.different) ++to.different;
  if (!pair.finite) {
    ++to.nonfinite;
    return;
  }
  to.max = std::max(to.max, pair.distance);
  to.distance += pair.distance;
  to.k1 += pair.k1;
  to.k2 += pair.k2;
  to.k3 += pair.k3;
  to.weight += pair.weight;
  to.weight_squares += pair.weight * pair.weight;
  to.weight_off += std::abs(pair.weight - 1);
  to.clipped += pair.clipped ? 1 : 0;
}

int64_t bucket(int64_t x) {
  return x <= 0 ? 0 : static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(x)));
}

size_t decade(double distance) {
  if (distance == 0) return 0;
  constexpr std::array kEdges = {1e-8f, 1e-7f, 1e-6f, 1e-5f, 1e-4f, 1e-3f, 1e-2f, 1e-1f, 1.0f};
  static_assert(kEdges.size() + 2 == kDecades);
  const auto above = std::ranges::upper_bound(kEdges, static_cast<float>(distance));
  return static_cast<size_t>(above - kEdges.begin()) + 1;
}

/// The version of the weights that wrote each response token of a row.
std::vector<int64_t> versions_of(const format::Versions& v, size_t row, int64_t prompt,
                                 size_t tokens) {
  const uint64_t begin = v.offsets[row], end = v.offsets[row + 1];
  if (begin == end) return {};
  std::vector<int64_t> out(tokens, v.versions[begin]);
  if (!v.starts) {
    const auto first = v.versions.begin() + static_cast<ptrdiff_t>(begin);
    const auto last = v.versions.begin() + static_cast<ptrdiff_t>(end);
    const bool one = std::all_of(first, last, [&](int64_t version) { return version == *first; });
    return one ? out : std::vector<int64_t>(tokens, kSeveralVersions);
  }
  size_t filled = tokens;  // from here on a later version wrote
  for (uint64_t i = end - 1; i > begin; --i) {
    const int64_t start = static_cast<int64_t>((*v.starts)[i]) - prompt;
    const auto from = std::min(static_cast<size_t>(std::max<int64_t>(0, start)), filled);
    std::fill(out.begin() + static_cast<ptrdiff_t>(from),
              out.begin() + static_cast<ptrdiff_t>(filled), v.versions[i]);
    filled = from;
  }
  return out;
}

/// Takes tokens in the order of the record: sums are chains, so that order is part of the result.
/// `distances_` is sorted and counts equal ones together only after merge_distances, which
/// percentiles need.
class Meter {
 public:
  Meter(const MismatchOptions& options, bool top_p) : options_(options), top_p_(top_p) {}

  void add_rollout(const RecordedRollout& rollout) {
    for (const RecordedStep& step : rollout.steps) add_step(rollout, step);
  }

  Mismatch done() {
    merge_distances();
    made_.p50 = percentile(0.5);
    made_.p90 = percentile(0.9);
    made_.p99 = percentile(0.99);
    if (!top_p_ && !nuclei_) made_.without_nuclei = 0;
    return std::move(made_);
  }

 private:
  void add_step(const RecordedRollout& rollout, const RecordedStep& step) {
    for (size_t i = 0; i < step.samples.size(); ++i) {
      const Sample& s = step.samples[i];
      const auto column = starting_column(step, i);
      const bool both = column != nullptr && s.rollout_log_probs.size() == s.loss_mask.size() &&
                        (*(step.*column))[i].size() == s.loss_mask.size();
      if (!both) {
        made_.without += std::ranges::count(s.loss_mask, uint8_t{1});
        continue;
      }
      add_sample(rollout, s, (*(step.*column))[i], (*step.rollout_log_probs)[i]);
      note_column(std::string(column_name(column)));
      ++made_.samples;
      nuclei_ = nuclei_ || s.nuclei;
      if (!s.nuclei && !s.loss_mask.empty()) ++made_.without_nuclei;
    }
  }

  void note_column(const std::string& name) {
    if (made_.train_column.find(name) == 0 || made_.train_column.ends_with(" " + name)) return;
    made_.train_column += (made_.train_column.empty() ? "" : " and ") + name;
  }

  /// The version of the weights that wrote each response token; empty where they were not recorded.
  std::vector<int64_t> versions(const RecordedRollout& rollout, const Sample& s) const {
    const auto row = rollout.rows.find(s.id);
    if (row == rollout.rows.end() || !rollout.data->versions) return {};
    return versions_of(*rollout.data->versions, row->second, s.prompt_length, s.loss_mask.size());
  }

  void add_sample(const RecordedRollout& rollout, const Sample& s, const std::vector<double>& train,
                  const std::vector<double>& recorded) {
    const auto length = static_cast<int64_t>(s.loss_mask.size());
    const std::vector<int64_t> written_by = versions(rollout, s);
    MismatchSums& of_rollout = made_.by_rollout[rollout.id];
    MismatchSums& of_length = made_.by_length[bucket(length)];
    MismatchSums* of_position = nullptr;
    int64_t of_bucket = -1;
    for (size_t t = 0; t < s.loss_mask.size(); ++t) {
      if (s.loss_mask[t] == 0) continue;
      const double a = train[t], b = recorded[t];
      const auto place = static_cast<int64_t>(t);
      const Pair pair(options_, a, b);
      if (of_bucket != bucket(place)) {
        of_bucket = bucket(place);
        of_position = &made_.by_position[of_bucket];
      }
      for (MismatchSums* sums : {&made_.all, &of_rollout, of_position, &of_length}) {
        add(*sums, pair);
      }
      if (!written_by.empty()) add(made_.by_version[written_by[t]], pair);
      const MismatchToken token{rollout.id,
                                s.id,
                                s.prompt_length + place,
                                s.tokens[static_cast<size_t>(s.prompt_length + place)],
                                a,
                                b};
      add_token(token);
    }
  }

  void add_token(const MismatchToken& token) {
    const double distance = token.distance();
    if (std::isfinite(distance)) {
      distances_.emplace_back(distance, 1);
      if (distances_.size() >= merge_at_) merge_distances();
      ++made_.decades[decade(distance)];
      if (distance > (made_.where ? made_.where->distance() : 0)) made_.where = token;
    }
    if (distance == 0) return;
    auto& worst = made_.worst;
    if (worst.size() == options_.worst && distance <= worst.back().distance()) return;
    const auto at = std::ranges::find_if(
        worst, [&](const MismatchToken& other) { return other.distance() < distance; });
    worst.insert(at, token);
    if (worst.size() > options_.worst) worst.pop_back();
  }

  /// Equal ones become one: a record whose columns are constant takes no memory for its tokens.
  void merge_distances() {
    std::ranges::sort(distances_, {}, &Counted::first);
    size_t kept = 0;
    for (const Counted& next : distances_) {
      if (kept > 0 && distances_[kept - 1].first == next.first) {
        distances_[kept - 1].second += next.second;
      } else {
        distances_[kept++] = next;
      }
    }
    distances_.resize(kept);
    merge_at_ = std::max<size_t>(kMergeAt, 2 * kept);
  }

  /// The least distance that `share` of all do not exceed: nearest rank, as percentile() takes it.
  double percentile(double share) const {
    int64_t all = 0, seen = 0;
    for (const Counted& known : distances_) all += known.second;
    const auto rank = static_cast<int64_t>(std::ceil(share * static_cast<double>(all)));
    for (const auto& [distance, count] : distances_) {
      if ((seen += count) >= std::max<int64_t>(rank, 1)) return distance;
    }
    return 0;
  }

  using Counted = std::pair<double, int64_t>;
  static constexpr size_t kMergeAt = size_t{1} << 20;

  const MismatchOptions& options_;
  const bool top_p_;
  bool nuclei_ = false;  // whether a sample says which ids were left
  Mismatch made_;
  std::vector<Counted> distances_;  // how often each occurs
  size_t merge_at_ = kMergeAt;
};

}  // namespace

std::optional<double> MismatchSums::mean(double sum) const {
  if (finite() == 0) return std::nullopt;
  return sum / static_cast<double>(finite());
}

std::optional<double> MismatchSums::effective_share() const {
  if (weight_squares == 0) return std::nullopt;
  return weight * weight / (static_cast<double>(finite()) * weight_squares);
}

double MismatchToken::distance() const {
  if (!std::isfinite(train) || !std::isfinite(recorded)) {
    return std::numeric_limits<double>::infinity();
  }
  return std::abs(train - recorded);
}

Mismatch measure_mismatch(const RecordedRun& run, const MismatchOptions& options) {
  const std::optional<std::string> vendor = imported_from(run.dump().meta(), run.path());
  Meter meter(options, vendor && needs_nuclei(imported_options(run, *vendor)));
  for (const int64_t id : trained_rollouts(run)) {
    meter.add_rollout(read_recorded_rollout(run, id));
  }
  Mismatch out = meter.done();
  if (out.all.tokens > 0) return out;
  throw Error(ErrorCode::kIncomplete,
              "no token has log-probabilities of both the trainer and the rollout", run.path());
}

std::string bucket_name(int64_t from) {
  if (from < 2) return std::to_string(from);
  return std::to_string(from) + "-" + std::to_string(2 * from - 1);
}

std::string decade_name(size_t decade) {
  if (decade < 2) return "0";
  return formatted("1e%+03d", static_cast<int>(decade) + kLowestDecade - 2);
}

}  // namespace rlreplay::replay
