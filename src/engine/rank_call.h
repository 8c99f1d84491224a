#pragma once

#include <string>

#include "src/engine/rank_groups.h"

namespace rlreplay::engine {

/// What a frame between two ranks is part of: the same on both sides, or their calls do not go
/// together.
struct RankCall {
  enum class Kind : uint8_t { kGather, kSum, kMessage, kOrder };
  GroupName group = GroupName::kWorld;
  Kind kind = Kind::kMessage;
  friend bool operator==(const RankCall&, const RankCall&) = default;
};

/// "tp gather".
std::string to_string(const RankCall& call);

}  // namespace rlreplay::engine
