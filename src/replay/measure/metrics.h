#pragma once

#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace rlreplay::measure {

/// A number, or a text: a digest, or an integer that binary64 would round.
struct MetricValue {
  double number = 0;
  std::string text = {};  // empty for what is a binary64 number

  /// Neither a text nor a finite number.
  [[nodiscard]] bool nonfinite() const;
  std::string describe() const;
};

/// Whether two values are the same, or finite numbers at most `tolerance` apart. NaN agrees with
/// NaN alone, an infinity with itself, a text with the same text, and -0 is not +0.
[[nodiscard]] bool agree(const MetricValue& a, const MetricValue& b, double tolerance);

/// Values in their order: 8 bytes a number, texts beside them. Copies share what they hold until
/// one of them grows.
class MetricValues {
 public:
  /// Gives each value as it is asked for.
  class Iterator {
   public:
    using iterator_concept = std::forward_iterator_tag;
    using iterator_category = std::input_iterator_tag;
    using value_type = MetricValue;
    using difference_type = std::ptrdiff_t;

    Iterator() = default;
    Iterator(const MetricValues* values, size_t index) : values_(values), index_(index) {}
    MetricValue operator*() const { return (*values_)[index_]; }
    Iterator& operator++() {
      ++index_;
      return *this;
    }
    Iterator operator++(int) {
      Iterator before = *this;
      ++index_;
      return before;
    }
    friend bool operator==(const Iterator&, const Iterator&) = default;

   private:
    const MetricValues* values_ = nullptr;
    size_t index_ = 0;
  };

  MetricValues() = default;
  MetricValues(std::initializer_list<MetricValue> values);

  size_t size() const { return held_ ? held_->numbers.size() : 0; }
  [[nodiscard]] bool empty() const { return size() == 0; }
  MetricValue operator[](size_t index) const;
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, size()}; }

  void push_back(const MetricValue& value);

  /// Holds in common with `other` what both hold alike, bit for bit; false where they differ.
  [[nodiscard]] bool share_with(const MetricValues& other);

  /// How much memory the values take, which copies have in common.
  size_t bytes() const;
  /// Equal for those that hold it in common.
  const void* place() const { return held_.get(); }

 private:
  struct Held {
    std::vector<double> numbers;          // 0 in the places of texts
    std::map<size_t, std::string> texts;  // by places
  };
  std::shared_ptr<Held> held_;  // copies have it in common
};

/// A named value, or a value a step.
struct Metric {
  std::string name;
  bool per_step = false;
  MetricValues values;
  std::vector<std::string> step_names = {};  // where steps are not merely counted
};

/// Lets metrics hold in common with `others` the values that are the same, name by name.
void share_values(std::vector<Metric>& metrics, const std::vector<Metric>& others);

/// How much memory the values of all of these take, those that several hold counted once.
[[nodiscard]] size_t bytes_of(const std::vector<const std::vector<Metric>*>& all);

/// The metric of this name; null where there is none.
[[nodiscard]] const Metric* find_metric(const std::vector<Metric>& metrics,
                                        const std::string& name);

/// `grad_norm, loss`
[[nodiscard]] std::string names_of(const std::vector<Metric>& metrics);

/// Reads a metrics.json, sorted by name: {"loss": [0.5, 0.25], "reward": 1}. A number may also be a
/// text, `0x1.8p-1` or `nan`; NaN and Infinity may stand bare, as Python's json writes them. Any
/// other text is compared as it stands. Of a metrics.jsonl each line is such an object, a step.
/// Errors: kIncomplete when there is no such file, kCorrupt.
[[nodiscard]] std::vector<Metric> read_metrics(const std::string& path);

}  // namespace rlreplay::measure
