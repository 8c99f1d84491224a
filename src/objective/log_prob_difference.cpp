#include "src/objective/log_prob_difference.h"

#include <algorithm>
#include <cmath>

#include "src/base/error.h"
#include "src/base/json_line.h"
#include "src/base/percentile.h"
#include "src/base/same_value.h"

namespace rlreplay {
LogProbDifference compare_log_probs(std::span<const Sample> samples,
                                    std::span<const std::vector<float>> a,
                                    std::span<const std::vector<float>> b) {
  LogProbDifference out;
  std::vector<double> distances;
  double sum = 0;
  // By id: the chain of the sum does not depend on the order of the batch.
  for (const size_t i : by_id(samples)) {
    const Sample& s = samples[i];
    const auto tokens = static_cast<size_t>(s.response_length());
    check(a[i].size() == tokens && b[i].size() == tokens, "a log-probability a response token");
    for (size_t t = 0; t < tokens; ++t) {
      if (s.loss_mask[t] == 0) continue;
      ++out.tokens;
      const float x = a[i][t], y = b[i][t];
      if (!std::isfinite(x) || !std::isfinite(y)) {
        ++out.nonfinite;
        continue;
      }
      if (!same_value(x, y)) ++out.different;
      const double distance = std::abs(static_cast<double>(x) - static_cast<double>(y));
      if (distance > out.max) {
        out.max = distance;
        out.where = {s.id, s.prompt_length + static_cast<int64_t>(t)};
      }
      sum += distance;
      distances.push_back(distance);
    }
  }
  std::sort(distances.begin(), distances.end());
  if (!distances.empty()) out.mean = sum / static_cast<double>(distances.size());
  out.p50 = percentile(distances, 0.5);
  out.p99 = percentile(distances, 0.99);
  return out;
}

std::string to_json(const LogProbDifference& d) {
  JsonLine out;
  out.number("max", d.max).number("mean", d.mean).number("p50", d.p50).number("p99", d.p99);
  out.integer("tokens", d.tokens).integer("different", d.different);
  out.integer("nonfinite", d.nonfinite);
  if (!d.where) return out.null("where").str();
  JsonLine place;
  place.integer("sample", static_cast<int64_t>(d.where->sample));
  place.integer("token", d.where->token).integer("rank", 0);
  return out.json("where", place.str()).str();
}

}  // namespace rlreplay
