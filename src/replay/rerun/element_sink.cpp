#include "src/replay/rerun/element_sink.h"

#include <algorithm>

#include "src/base/dtype.h"

namespace rlreplay::replay {
namespace {

double number_at(const engine::EventView& values, int64_t row, int64_t column) {
  const std::byte* at = values.at(row, column);
  switch (values.dtype) {
    case DType::kF32:
      return static_cast<double>(load_as<float>(at));
    case DType::kF64:
      return load_as<double>(at);
    case DType::kI32:
      return static_cast<double>(load_as<int32_t>(at));
    default:
      return static_cast<double>(load_as<int64_t>(at));
  }
}

}  // namespace

bool ElementSink::wants(const engine::Event& event) const {
  return std::ranges::any_of(wanted_, [&](const auto& w) { return w.event == event; });
}

void ElementSink::rows(const engine::Event& event, const engine::EventView& values,
                       const engine::RowCoordinates& coordinates) {
  for (size_t i = 0; i < wanted_.size(); ++i) {
    const WantedNumbers& wanted = wanted_[i];
    if (wanted.event != event) continue;
    for (int64_t r = 0; r < values.rows; ++r) {
      const TokenPlace place{coordinates.sample[r], coordinates.position[r]};
      if (wanted.token && *wanted.token != place) continue;
      std::vector<double>& to = kept_[i][place];
      for (const int64_t column : wanted.columns) to.push_back(number_at(values, r, column));
    }
  }
}

void ElementSink::whole(const engine::Event& event, const engine::EventView& values) {
  for (size_t i = 0; i < wanted_.size(); ++i) {
    const WantedNumbers& wanted = wanted_[i];
    if (wanted.event != event) continue;
    std::vector<double>& to = kept_[i][{0, 0}];
    for (const int64_t column : wanted.columns) {
      to.push_back(number_at(values, wanted.row, column));
      if (event.op == engine::Op::kGradient) {
        sum_ = load_as<int64_t>(values.at(wanted.row, column));
      }
    }
  }
}

// A step begins anew before its gradients are reduced: what comes again is of the phases before.
void ElementSink::restart() {
  for (size_t i = 0; i < kept_.size(); ++i) {
    if (wanted_[i].event.phase <= engine::Phase::kBackward) kept_[i].clear();
  }
}

std::optional<double> ElementSink::number(size_t index) const {
  const auto& of = kept_[index];
  if (of.size() != 1 || of.begin()->second.size() != 1) return std::nullopt;
  return of.begin()->second.front();
}

}  // namespace rlreplay::replay
