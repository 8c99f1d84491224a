#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "src/events/event_record.h"

namespace rlreplay::replay {

/// A token of a sample.
using TokenPlace = std::pair<uint64_t, int64_t>;

/// Numbers of one event that shall be kept.
struct WantedNumbers {
  engine::Event event;
  std::vector<int64_t> columns;
  std::optional<TokenPlace> token;  // of rows by token; none: all of them
  int64_t row = 0;                  // of whole tensors
};

/// Keeps a few numbers of the events that pass by, as they are.
class ElementSink : public engine::EventSink {
 public:
  explicit ElementSink(std::vector<WantedNumbers> wanted)
      : wanted_(std::move(wanted)), kept_(wanted_.size()) {}

  [[nodiscard]] bool wants(const engine::Event& event) const override;
  void rows(const engine::Event& event, const engine::EventView& values,
            const engine::RowCoordinates& coordinates) override;
  void whole(const engine::Event& event, const engine::EventView& values) override;
  void restart() override;

  /// The kept numbers that were wanted at `index`, by token, (0, 0) of a whole tensor. Every type
  /// fits binary64 but sums, which stand in `sum`.
  const std::map<TokenPlace, std::vector<double>>& kept(size_t index) const { return kept_[index]; }
  [[nodiscard]] std::optional<double> number(size_t index) const;
  [[nodiscard]] std::optional<int64_t> sum() const { return sum_; }

 private:
  std::vector<WantedNumbers> wanted_;
  std::vector<std::map<TokenPlace, std::vector<double>>> kept_;
  std::optional<int64_t> sum_;  // of the last gradient that was wanted
};

}  // namespace rlreplay::replay
