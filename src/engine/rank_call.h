#pragma once

#include <string>

#include "src/engine/rank_groups.h"

namespace rlreplay::engine {

/// What a frame between two ranks is part of. Where it is another call than the one that the
/// receiver makes, their calls do not go together.
struct RankCall {
  enum class Kind : uint8_t { kGather, kSum, kMessage, kOrder, kPart };
  RankGroup group = RankGroup::kWorld;
  Kind kind = Kind::kMessage;
  friend bool operator==(const RankCall&, const RankCall&) = default;
};

inline constexpr uint8_t kRankCallKinds = 5;

/// The orders of rank 0, and what is answered.
inline constexpr RankCall kOrderCall{RankGroup::kWorld, RankCall::Kind::kOrder};

/// The elements of a part that was shown to rank 0, on their way back.
inline constexpr RankCall kPartCall{RankGroup::kWorld, RankCall::Kind::kPart};

/// "tp gather".
[[nodiscard]] std::string to_string(const RankCall& call);

}  // namespace rlreplay::engine
