#pragma once

#include <string>

#include "src/engine/rank_groups.h"

namespace rlreplay::engine {

/// What a frame between two ranks is part of: the same on both sides, or their calls do not go
/// together.
struct RankCall {
  enum class Kind : uint8_t { kGather, kSum, kMessage, kOrder, kPart };
  RankGroup group = RankGroup::kWorld;
  Kind kind = Kind::kMessage;
  friend bool operator==(const RankCall&, const RankCall&) = default;
};

inline constexpr uint8_t kRankCallKinds = 5;

/// What rank 0 orders, and what is answered.
inline constexpr RankCall kOrderCall{RankGroup::kWorld, RankCall::Kind::kOrder};
/// What comes back of a part that was shown to rank 0.
inline constexpr RankCall kPartCall{RankGroup::kWorld, RankCall::Kind::kPart};

/// "tp gather".
std::string to_string(const RankCall& call);

}  // namespace rlreplay::engine
