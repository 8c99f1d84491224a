#include <algorithm>
#include <bit>
#include <cstdint>
#include <set>

#include "src/replay/measure/metric_index.h"

namespace rlreplay::measure {

MetricValues::MetricValues(std::initializer_list<MetricValue> values) {
  for (const MetricValue& value : values) push_back(value);
}

MetricValue MetricValues::operator[](size_t index) const {
  const auto text = held_->texts.empty() ? held_->texts.end() : held_->texts.find(index);
  if (text != held_->texts.end()) return {0, text->second};
  return {held_->numbers[index]};
}

// Copies have their values in common until one of them grows.
void MetricValues::push_back(const MetricValue& value) {
  if (!held_) {
    held_ = std::make_shared<Held>();
  } else if (held_.use_count() > 1) {
    held_ = std::make_shared<Held>(*held_);
  }
  if (!value.text.empty()) held_->texts[held_->numbers.size()] = value.text;
  held_->numbers.push_back(value.text.empty() ? value.number : 0);
}

bool MetricValues::share_with(const MetricValues& other) {
  if (held_ == other.held_) return true;
  if (!held_ || !other.held_) return false;
  const auto bits = [](double number) { return std::bit_cast<uint64_t>(number); };
  const bool same = std::ranges::equal(held_->numbers, other.held_->numbers, {}, bits, bits) &&
                    held_->texts == other.held_->texts;
  if (same) held_ = other.held_;
  return same;
}

size_t MetricValues::bytes() const {
  if (!held_) return 0;
  size_t bytes = sizeof(Held) + held_->numbers.capacity() * sizeof(double);
  for (const auto& [index, text] : held_->texts)
    bytes += sizeof(index) + sizeof(text) + text.size();
  return bytes;
}

void share_values(std::vector<Metric>& metrics, const std::vector<Metric>& others) {
  const MetricIndex index(others);
  for (Metric& metric : metrics) {
    const Metric* other = index.find(metric.name);
    if (other != nullptr) static_cast<void>(metric.values.share_with(other->values));
  }
}

size_t bytes_of(const std::vector<const std::vector<Metric>*>& all) {
  std::set<const void*> counted;
  size_t bytes = 0;
  for (const std::vector<Metric>* metrics : all) {
    for (const Metric& metric : *metrics) {
      if (counted.insert(metric.values.place()).second) bytes += metric.values.bytes();
    }
  }
  return bytes;
}

}  // namespace rlreplay::measure
