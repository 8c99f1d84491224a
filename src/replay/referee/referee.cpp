#include "src/replay/referee/referee.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "src/base/error.h"
#include "src/base/percentile.h"
#include "src/base/same_value.h"

namespace rlreplay::replay {
namespace {

using Indices = std::vector<size_t>;

// First positions of the ranges in which tokens are judged together.
constexpr int64_t kPositions[] = {0, 16, 64, 256, 1024, 4096, 16384};

size_t at(Side side) { return static_cast<size_t>(side); }

/// `value` gives nothing for a token that has none.
template <class Get>
Distances measure(const std::vector<JudgedToken>& tokens, const Indices& rows, const Get& value) {
  Distances out;
  std::vector<double> distances;
  double sum = 0, bias = 0;
  for (const size_t i : rows) {
    const std::optional<float> x = value(tokens[i]);
    if (!x) continue;
    ++out.tokens;
    if (!std::isfinite(*x) || !std::isfinite(tokens[i].referee)) {
      ++out.nonfinite;
      continue;
    }
    const double d = static_cast<double>(*x) - static_cast<double>(tokens[i].referee);
    if (std::abs(d) > out.max || !out.where) out.where = i;
    out.max = std::max(out.max, std::abs(d));
    sum += std::abs(d);
    bias += d;
    distances.push_back(std::abs(d));
  }
  if (distances.empty()) return out;
  std::sort(distances.begin(), distances.end());
  const auto n = static_cast<double>(distances.size());
  out.mean = sum / n;
  out.bias = bias / n;
  out.p50 = percentile(distances, 0.5);
  out.p99 = percentile(distances, 0.99);
  return out;
}

Distances measure(const std::vector<JudgedToken>& tokens, const Indices& rows, Side side) {
  return measure(tokens, rows, [side](const JudgedToken& t) { return t.side[at(side)]; });
}

Nearer nearer(const std::vector<JudgedToken>& tokens, const Indices& rows) {
  Indices both;
  for (const size_t i : rows) {
    const auto finite = [](std::optional<float> x) { return x && std::isfinite(*x); };
    if (finite(tokens[i].side[0]) && finite(tokens[i].side[1])) both.push_back(i);
  }
  if (both.empty()) return Nearer::kUnknown;
  const double train = measure(tokens, both, Side::kTrain).mean;
  const double rollout = measure(tokens, both, Side::kRollout).mean;
  if (train == rollout) return Nearer::kEqual;
  return train < rollout ? Nearer::kTrain : Nearer::kRollout;
}

RefereeRow make_row(const std::vector<JudgedToken>& tokens, const Indices& rows) {
  RefereeRow out;
  out.tokens = static_cast<int64_t>(rows.size());
  out.noise = measure(tokens, rows, [](const JudgedToken& t) { return std::optional(t.rounded); });
  for (const Side side : kSides) {
    const Distances d = measure(tokens, rows, side);
    if (d.tokens > 0) out.side[at(side)] = d;
  }
  out.nearer = nearer(tokens, rows);
  return out;
}

std::vector<JudgedToken> judged_tokens(const RefereeCase& given,
                                       const engine::StreamedScores& scores) {
  std::vector<JudgedToken> out;
  for (size_t i = 0; i < given.samples.size(); ++i) {
    const Sample& s = given.samples[i];
    const auto n = static_cast<size_t>(s.response_length());
    const std::vector<float>& train = given.train[i];
    const std::vector<float>& rollout = s.rollout_log_probs;
    const auto side = [n](const std::vector<float>& values, size_t t) {
      return values.size() == n ? std::optional(values[t]) : std::nullopt;
    };
    for (size_t t = 0; t < n; ++t) {
      if (s.loss_mask[t] == 0) continue;
      out.push_back({i,
                     s.prompt_length + static_cast<int64_t>(t),
                     scores.exact[i].log_probs[t],
                     scores.rounded[i].log_probs[t],
                     {side(train, t), side(rollout, t)}});
    }
  }
  return out;
}

/// The mean distance of a side from the evaluation of the token `shift` places on, over the tokens
/// whose neighbours are judged too.
double shifted_mean(const std::vector<JudgedToken>& tokens, Side side, int shift) {
  double sum = 0;
  int64_t n = 0;
  for (size_t i = 1; i + 1 < tokens.size(); ++i) {
    const JudgedToken& t = tokens[i];
    const bool inside = tokens[i - 1].sample == t.sample && tokens[i + 1].sample == t.sample &&
                        tokens[i - 1].token + 1 == t.token && tokens[i + 1].token == t.token + 1;
    const std::optional<float> x = t.side[at(side)];
    if (!inside || !x || !std::isfinite(*x)) continue;
    const float referee = tokens[static_cast<size_t>(static_cast<int64_t>(i) + shift)].referee;
    sum += std::abs(static_cast<double>(*x) - static_cast<double>(referee));
    ++n;
  }
  return n == 0 ? 0 : sum / static_cast<double>(n);
}

std::optional<int> find_shift(const std::vector<JudgedToken>& tokens, Side side) {
  const double in_place = shifted_mean(tokens, side, 0);
  for (const int shift : {-1, 1}) {
    if (2 * shifted_mean(tokens, side, shift) < in_place) return shift;
  }
  return std::nullopt;
}

/// Samples most of whose tokens are farther than those of most samples, and than noise.
std::vector<size_t> broken_samples(const RefereeVerdict& verdict, Side side) {
  std::vector<double> medians;
  for (const RefereeRow& row : verdict.samples) {
    const auto& d = row.side[at(side)];
    if (d && d->tokens > d->nonfinite) medians.push_back(d->p50);
  }
  std::sort(medians.begin(), medians.end());
  if (medians.size() < 2) return {};
  const double usual = medians[(medians.size() - 1) / 2];
  const double most = std::max(kBrokenSample * usual, kBeyondNoise * verdict.all.noise.p99);
  std::vector<size_t> out;
  for (size_t i = 0; i < verdict.samples.size(); ++i) {
    const auto& d = verdict.samples[i].side[at(side)];
    if (d && d->tokens > 0 && (d->nonfinite == d->tokens || d->p50 > most)) out.push_back(i);
  }
  return out;
}

double farthest(const JudgedToken& t) {
  double out = 0;
  for (const std::optional<float>& x : t.side) {
    if (!x) continue;
    const double d = std::abs(static_cast<double>(*x) - static_cast<double>(t.referee));
    out = std::max(out, std::isfinite(d) ? d : INFINITY);
  }
  return out;
}

std::vector<RefereeVerdict::Positions> by_position(const RefereeCase& given,
                                                   const std::vector<JudgedToken>& tokens) {
  std::vector<RefereeVerdict::Positions> out;
  for (size_t b = 0; b < std::size(kPositions); ++b) {
    const int64_t first = kPositions[b];
    const int64_t end = b + 1 < std::size(kPositions) ? kPositions[b + 1] : INT64_MAX;
    Indices rows;
    int64_t last = 0;
    for (size_t i = 0; i < tokens.size(); ++i) {
      const int64_t place = tokens[i].token - given.samples[tokens[i].sample].prompt_length;
      if (place < first || place >= end) continue;
      rows.push_back(i);
      last = std::max(last, place);
    }
    if (!rows.empty()) out.push_back({first, last, make_row(tokens, rows)});
  }
  return out;
}

}  // namespace

std::string name(Side side) { return side == Side::kTrain ? "train" : "rollout"; }

std::string name(Nearer nearer) {
  switch (nearer) {
    case Nearer::kTrain:
      return "train";
    case Nearer::kRollout:
      return "rollout";
    case Nearer::kEqual:
      return "equal";
    case Nearer::kUnknown:
      return "unknown";
  }
  return "unknown";
}

RefereeVerdict judge(const RefereeCase& given, const engine::StreamedScores& scores, size_t worst) {
  RefereeVerdict out;
  out.tokens = judged_tokens(given, scores);
  Indices all(out.tokens.size());
  std::iota(all.begin(), all.end(), size_t{0});
  out.all = make_row(out.tokens, all);
  std::vector<Indices> by_sample(given.samples.size());
  for (const size_t i : all) by_sample[out.tokens[i].sample].push_back(i);
  for (const Indices& rows : by_sample) out.samples.push_back(make_row(out.tokens, rows));
  out.positions = by_position(given, out.tokens);
  for (const Side side : kSides) {
    const std::optional<Distances>& d = out.all.side[at(side)];
    if (!d) continue;
    if (out.all.noise.mean > 0) out.noise_ratio[at(side)] = d->mean / out.all.noise.mean;
    out.beyond_noise[at(side)] = d->nonfinite > 0 || d->mean > kBeyondNoise * out.all.noise.mean;
    out.shifted[at(side)] = find_shift(out.tokens, side);
    out.broken[at(side)] = broken_samples(out, side);
  }
  std::stable_sort(all.begin(), all.end(), [&](size_t a, size_t b) {
    return farthest(out.tokens[a]) > farthest(out.tokens[b]);
  });
  all.resize(std::min(all.size(), worst));
  out.worst = std::move(all);
  return out;
}

}  // namespace rlreplay::replay
