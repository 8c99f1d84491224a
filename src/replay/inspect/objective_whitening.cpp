#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "format/foreign/context_slices.h"
#include "src/replay/inspect/objective_parts.h"

namespace rlreplay::replay {
namespace {

/// What the frameworks add to the variance that advantages are whitened by.
constexpr double kWhiteningEpsilon = 1e-8;

/// Whitens in the way of a setting.
class Whitener {
 public:
  Whitener(const ObjectiveSetting& setting, const WhitenedBatch& batch)
      : setting_(setting), batch_(batch), samples_(batch.samples) {}

  void whiten(engine::TokenValues& values) const {
    if (setting_.whitening_ranks > 1) return whiten_by_rank(values);
    if (setting_.whitening != Whitening::kStep && spreads_nan(samples_, values)) return;
    if (setting_.whitening == Whitening::kBinary32 && whiten_as_recorded(values)) return;
    if (setting_.whitening == Whitening::kNegative && whiten_to_nan(values)) return;
    if (setting_.whitening != Whitening::kStep) return engine::whiten(samples_, values);
    size_t begin = 0;
    for (const size_t end : batch_.ends) {
      engine::TokenValues part(values.begin() + static_cast<ptrdiff_t>(begin),
                               values.begin() + static_cast<ptrdiff_t>(end));
      const auto samples = samples_.subspan(begin, end - begin);
      if (!spreads_nan(samples, part)) engine::whiten(samples, part);
      std::ranges::move(part, values.begin() + static_cast<ptrdiff_t>(begin));
      begin = end;
    }
  }

 private:
  /// Sets all values to NaN where a masked one is not finite, as frameworks do, which sum values
  /// times their mask. Returns whether it did; only under masked_nan.
  bool spreads_nan(std::span<const Sample> samples, engine::TokenValues& values) const {
    bool found = false;
    for (size_t i = 0; setting_.masked_nan && i < samples.size(); ++i) {
      for (size_t t = 0; t < values[i].size(); ++t) {
        found = found || (samples[i].loss_mask[t] == 0 && !std::isfinite(values[i][t]));
      }
    }
    if (found) set_nan(values);
    return found;
  }

  static void set_nan(engine::TokenValues& values) {
    for (std::vector<double>& sample : values) {
      std::ranges::fill(sample, std::numeric_limits<double>::quiet_NaN());
    }
  }

  /// Whitens by the mean and the scale that the recorded advantages imply, where these lie as near
  /// to the exact ones as sums in binary32 do. Otherwise false, and nothing is changed.
  bool whiten_as_recorded(engine::TokenValues& values) const {
    if (!batch_.recorded) return false;
    const Moments of = moments(values, *batch_.recorded);
    const double scale = of.covariance / of.variance, mean = of.mean - of.image / scale;
    const double variance = 1 / (scale * scale) - kWhiteningEpsilon;
    const double slack = variance_slack(of);
    const bool near = std::abs(mean - of.mean) <= kSums32 * (std::abs(of.mean) + of.deviation()) &&
                      std::abs(variance - of.variance) <= slack;
    if (!near || !(scale > 0)) return false;
    for (std::vector<double>& sample : values) {
      for (double& x : sample) x = (x - mean) * scale;
    }
    return true;
  }

  /// A variance below 0 has no root: every advantage is NaN. False where sums in binary32 cannot
  /// end there.
  bool whiten_to_nan(engine::TokenValues& values) const {
    const Moments of = moments(values, values);
    if (!(of.variance + kWhiteningEpsilon <= variance_slack(of)) || has_exact_sums(values)) {
      return false;
    }
    set_nan(values);
    return true;
  }

  /// Whether sums in binary32 round nothing, so that their variance is the exact one.
  bool has_exact_sums(const engine::TokenValues& values) const {
    double n = 0, sum = 0, squares = 0;
    for (size_t i = 0; i < samples_.size(); ++i) {
      for (size_t t = 0; t < values[i].size(); ++t) {
        if (samples_[i].loss_mask[t] == 0) continue;
        ++n, sum += values[i][t], squares += values[i][t] * values[i][t];
      }
    }
    const double mean = sum / n;
    const std::array made = {sum, squares, mean, squares / n, mean * mean};
    return std::ranges::all_of(made, [](double x) { return rounded(x) == x; });
  }

  /// Moments of a column over its unmasked tokens, and of what it became (`image`).
  struct Moments {
    double mean = 0, image = 0, variance = 0, covariance = 0;
    double deviation() const { return std::sqrt(variance); }
  };

  /// How far E[x^2] - E[x]^2 of sums in binary32 can lie from the variance.
  static double variance_slack(const Moments& of) {
    return kSums32 * (of.mean * of.mean + of.variance + kWhiteningEpsilon);
  }

  Moments moments(const engine::TokenValues& x, const engine::TokenValues& image) const {
    Moments out;
    double n = 0;
    const auto each = [&](const auto& take) {
      for (size_t i = 0; i < samples_.size(); ++i) {
        for (size_t t = 0; t < x[i].size(); ++t) {
          if (samples_[i].loss_mask[t] != 0) take(x[i][t], image[i][t]);
        }
      }
    };
    each([&](double a, double b) { ++n, out.mean += a, out.image += b; });
    out.mean /= n;
    out.image /= n;
    each([&](double a, double b) {
      out.variance += (a - out.mean) * (a - out.mean);
      out.covariance += (a - out.mean) * (b - out.image);
    });
    out.variance /= std::max(1.0, n - 1);
    out.covariance /= std::max(1.0, n - 1);
    return out;
  }

  /// Each rank of context parallelism whitens the slices that it holds by itself.
  void whiten_by_rank(engine::TokenValues& values) const {
    ObjectiveSetting of_rank = setting_;
    of_rank.whitening_ranks = 1;
    for (int64_t rank = 0; rank < setting_.whitening_ranks; ++rank) {
      std::vector<Sample> slices;
      engine::TokenValues part, recorded;
      size_t held = 0;
      std::vector<std::vector<size_t>> places(samples_.size());
      for (size_t i = 0; i < samples_.size(); ++i) {
        places[i] = places_of(i, rank);
        slices.push_back(slice(samples_[i], places[i]));
        part.push_back(slice(values[i], places[i]));
        if (batch_.recorded) recorded.push_back(slice((*batch_.recorded)[i], places[i]));
        held += places[i].size();
      }
      if (held == 0) continue;  // prompts alone: there is nothing to whiten
      WhitenedBatch of_slices{slices, batch_.whole, batch_.ends, std::nullopt};
      if (batch_.recorded) of_slices.recorded = std::move(recorded);
      Whitener(of_rank, of_slices).whiten(part);
      for (size_t i = 0; i < part.size(); ++i) {
        for (size_t k = 0; k < part[i].size(); ++k) values[i][places[i][k]] = part[i][k];
      }
    }
  }

  std::vector<size_t> places_of(size_t i, int64_t rank) const {
    std::vector<size_t> out;
    const auto response = static_cast<int64_t>(samples_[i].loss_mask.size());
    for (const auto& range : format_slices(batch_.whole[i], response, rank)) {
      for (int64_t t = range.begin; t < range.end; ++t) out.push_back(static_cast<size_t>(t));
    }
    return out;
  }

  std::array<foreign::ResponseRange, 2> format_slices(int64_t total, int64_t response,
                                                      int64_t rank) const {
    return foreign::response_slices(total, response, total, setting_.whitening_ranks, rank);
  }

  template <class T>
  static std::vector<T> slice(const std::vector<T>& values, const std::vector<size_t>& places) {
    std::vector<T> out;
    for (const size_t place : places) {
      if (place < values.size()) out.push_back(values[place]);
    }
    return out;
  }

  static Sample slice(const Sample& s, const std::vector<size_t>& places) {
    Sample out = s;
    out.loss_mask = slice(s.loss_mask, places);
    out.tokens.resize(places.size() + 1);
    return out;
  }

  const ObjectiveSetting& setting_;
  const WhitenedBatch& batch_;
  std::span<const Sample> samples_;
};

}  // namespace

void whiten_as(const ObjectiveSetting& setting, const WhitenedBatch& batch,
               engine::TokenValues& values) {
  Whitener(setting, batch).whiten(values);
}

}  // namespace rlreplay::replay
