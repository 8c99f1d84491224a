#include "src/replay/inspect/mismatch.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "src/base/error.h"
#include "src/base/percentile.h"
#include "src/base/same_value.h"
#include "src/objective/objective.h"
#include "src/replay/record/dump_meta.h"
#include "src/replay/record/imported_samples.h"
#include "src/replay/record/recorded_step.h"

namespace rlreplay::replay {
namespace {

constexpr int kLowestDecade = -8;  // of 10

double estimate(engine::KlType type, double d) {
  return engine::kl_of_difference(type, engine::Dialect::kSlime, -d).value;
}

void add(MismatchSums& to, const MismatchOptions& options, double train, double recorded) {
  ++to.tokens;
  if (!same_value(train, recorded)) ++to.different;
  if (!std::isfinite(train) || !std::isfinite(recorded)) {
    ++to.nonfinite;
    return;
  }
  const double d = train - recorded;
  const double w = std::exp(d);
  to.max = std::max(to.max, std::abs(d));
  to.distance += std::abs(d);
  to.k1 += estimate(engine::KlType::kK1, d);
  to.k2 += estimate(engine::KlType::kK2, d);
  to.k3 += estimate(engine::KlType::kK3, d);
  to.weight += w;
  to.weight_squares += w * w;
  to.weight_off += std::abs(w - 1);
  to.clipped += w < options.tis_low || w > options.tis_high ? 1 : 0;
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

class Meter {
 public:
  Meter(const MismatchOptions& options, bool top_p) : options_(options), top_p_(top_p) {}

  void add_rollout(const RecordedRollout& rollout) {
    for (const RecordedStep& step : rollout.steps) add_step(rollout, step);
  }

  Mismatch done() {
    std::sort(distances_.begin(), distances_.end());
    made_.p50 = percentile(distances_, 0.5);
    made_.p90 = percentile(distances_, 0.9);
    made_.p99 = percentile(distances_, 0.99);
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

  /// Empty where they were not recorded.
  std::vector<int64_t> versions(const RecordedRollout& rollout, const Sample& s) const {
    const auto row = rollout.rows.find(s.id);
    if (row == rollout.rows.end() || !rollout.data->versions) return {};
    return versions_of(*rollout.data->versions, row->second, s.prompt_length, s.loss_mask.size());
  }

  void add_sample(const RecordedRollout& rollout, const Sample& s, const std::vector<double>& train,
                  const std::vector<double>& recorded) {
    const auto length = static_cast<int64_t>(s.loss_mask.size());
    const std::vector<int64_t> written_by = versions(rollout, s);
    for (size_t t = 0; t < s.loss_mask.size(); ++t) {
      if (s.loss_mask[t] == 0) continue;
      const double a = train[t], b = recorded[t];
      const auto place = static_cast<int64_t>(t);
      for (MismatchSums* sums :
           {&made_.all, &made_.by_rollout[rollout.id], &made_.by_position[bucket(place)],
            &made_.by_length[bucket(length)]}) {
        add(*sums, options_, a, b);
      }
      if (!written_by.empty()) add(made_.by_version[written_by[t]], options_, a, b);
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
      distances_.push_back(distance);
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

  const MismatchOptions& options_;
  const bool top_p_;
  bool nuclei_ = false;  // whether a sample says which ids were left
  Mismatch made_;
  std::vector<double> distances_;
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
  char text[16];
  std::snprintf(text, sizeof text, "1e%+03d", static_cast<int>(decade) + kLowestDecade - 2);
  return text;
}

}  // namespace rlreplay::replay
