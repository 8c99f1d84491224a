#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "src/events/events.h"

namespace rlreplay::engine {

/// An event of one step. What a rollout emits belongs to its first step.
struct StepEvent {
  int64_t rollout_id = 0;
  int64_t step_id = 0;
  Event event;

  friend bool operator==(const StepEvent&, const StepEvent&) = default;
};

/// `PHASE/LAYER/OP/TENSOR`, LAYER `-` where there is none.
[[nodiscard]] std::string to_string(const Event& event);

/// `ROLLOUT.STEP/PHASE/LAYER/OP/TENSOR`: `3.0/backward/1/down/dx`.
[[nodiscard]] std::string to_string(const StepEvent& event);

/// The name of what an event holds, as its digest takes it (docs/numerics.md section 8): that of a
/// parameter; for moments `exp_avg/` and `exp_avg_sq/` before it; else `LAYER/OP/TENSOR`, so that a
/// row of a rollout has the digest of the same row of the training forward.
[[nodiscard]] std::string digest_name(const Event& event);

/// An event of another table than ours: somebody else's trainer named it, and its name is all that
/// is known of it. `tensor` is that name.
[[nodiscard]] bool is_named(const Event& event);

/// `phase`: kRollout for one of a rollout, kForward for one of a step.
[[nodiscard]] Event named_event(std::string name, Phase phase);

/// The event of a recorded name, whoever's it is. Of ours only where type and dimensions are those
/// that it can have here.
[[nodiscard]] Event recorded_event(std::string_view name, DType dtype, size_t dims, Phase phase);

/// Whether a name can be one: 1 to 1024 bytes, no space and no control character among them.
[[nodiscard]] bool is_event_name(std::string_view name);

/// Errors: kUsage with what is wrong and what would be right.
[[nodiscard]] Event parse_event(std::string_view text);
[[nodiscard]] StepEvent parse_step_event(std::string_view text);

/// `ROLLOUT.STEP/NAME` of a named event of a step; nothing where it has not this form.
[[nodiscard]] std::optional<StepEvent> find_step_event(std::string_view text);

}  // namespace rlreplay::engine
