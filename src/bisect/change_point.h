#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace rlreplay::bisect {

/// The strategy of noisy runs: where in a row of places the distribution of their values changes
/// once. Places 0 and `last` are known to lie before and behind it. All that is assumed of the
/// values is that those before have one distribution and those behind another: of verdicts two
/// rates, of numbers two normal distributions, whose parameters are unknown and integrated out.
/// That nothing changes at all is taken to be as probable as that something does. Source: conjugate
/// priors, of rates Beta(1/2, 1/2) and of normal distributions normal-gamma, as in Murphy,
/// Conjugate Bayesian analysis of the Gaussian distribution (2007).
class ChangePoint {
 public:
  enum class Values { kVerdicts, kNumbers };  // a verdict is 0 for good, 1 for bad

  ChangePoint(size_t last, Values values);

  void add(size_t place, double value);
  /// A place of which nothing will be known: what lies at both of its sides is not told apart.
  void skip(size_t place);

  /// The place of which a value would say most: the one by which the change has happened with the
  /// probability nearest to one half; an end, where little is known of how its side is.
  [[nodiscard]] size_t next() const;

  /// The most probable answer: the change came with one of first ... last, which skipped places
  /// keep together.
  struct Answer {
    size_t first = 0, last = 0;
    double probability = 0;
  };
  [[nodiscard]] Answer best() const;
  /// The fewest neighbours of the best that hold so much probability together.
  [[nodiscard]] Answer interval(double probability) const;
  /// That the ends do not differ.
  [[nodiscard]] double unchanged() const { return unchanged_; }

 private:
  struct Sums {
    double count = 0, sum = 0, mean = 0, around = 0;  // the last: squared distances from the mean
    void add(double value);
  };
  void update();
  [[nodiscard]] std::optional<size_t> starved_end() const;
  [[nodiscard]] double evidence(const Sums& sums) const;
  [[nodiscard]] std::vector<Answer> groups() const;

  Values values_;
  std::vector<std::vector<double>> seen_;  // [place]
  std::vector<bool> skipped_;
  std::vector<double> posterior_;  // [k]: that k is the first place behind the change; 1 ... last
  double unchanged_ = 0.5;
};

}  // namespace rlreplay::bisect
