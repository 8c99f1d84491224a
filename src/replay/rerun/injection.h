#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "src/base/layout.h"
#include "src/base/parameters.h"
#include "src/events/event_rows.h"
#include "src/events/name.h"

namespace rlreplay::replay {

/// One difference to plant: `EVENT:INDEX:ULPS[@RANK]`. INDEX is flat, row-major, in the logical
/// tensor (docs/events.md says in which order its rows are). ULPS, which may be negative, counts
/// floating-point numbers, or quanta of an integer. RANK, of a layout, is whose copy is changed.
struct Injection {
  engine::StepEvent at;
  std::optional<int> rank;  // without one every copy is changed
  int64_t index = 0;
  int64_t ulps = 0;
};

/// Reads the text that to_string() writes; `@RANK` may be left out. Errors: kUsage.
[[nodiscard]] Injection parse_injection(std::string_view text);
[[nodiscard]] std::string to_string(const Injection& injection);

/// What an injection did.
struct Planted {
  engine::Element element;
  std::string before, after;  // as reports write numbers
};

/// Plants a difference in what an inner sink, if there is one, sees as well.
class InjectingSink : public engine::EventSink {
 public:
  /// Errors: kUsage where the model has no such event, the event cannot be changed, or the layout
  /// has no such rank; kUnsupported in several ranks for what is no part of a parameter's tensor.
  InjectingSink(const Injection& injection, const ModelConfig& config,
                const ParameterTable& parameters, const Layout& layout, engine::EventSink* inner);

  /// The step that comes and its samples; of a rollout, those that its record has. Only now does
  /// INDEX mean a place. Errors: kUsage for an index outside of the tensor, with the valid range.
  void begin(int64_t rollout_id, int64_t step_id, std::span<const engine::SampleShape> samples);

  [[nodiscard]] bool wants(const engine::Event& event) const override;
  void rows(const engine::Event& event, const engine::EventView& values,
            const engine::RowCoordinates& coordinates) override;
  void whole(const engine::Event& event, const engine::EventView& values) override;
  [[nodiscard]] bool wants_part(const engine::Event& event, int rank) const override;
  void part(const engine::Event& event, int rank, const engine::EventView& values, int64_t row,
            int64_t column) override;
  void restart() override;

  /// What was planted; empty until the value passed by.
  const std::optional<Planted>& planted() const { return planted_; }

 private:
  void plant(std::byte* element, const engine::Element& at);

  Injection injection_;
  Layout layout_;
  const engine::EventSpec& spec_;
  int64_t columns_ = 1;
  int64_t parameter_rows_ = 1;
  engine::EventSink* inner_;
  std::optional<engine::Element> target_;  // while its step runs
  std::optional<Planted> planted_;
};

}  // namespace rlreplay::replay
