#include "src/engine/rank_call.h"

namespace rlreplay::engine {

std::string to_string(const RankCall& call) {
  if (call.kind == RankCall::Kind::kOrder) return "the order of what is next";
  if (call.kind == RankCall::Kind::kPart) return "what is shown to rank 0";
  constexpr std::string_view kKinds[] = {" gather", " sum", " receive"};
  return std::string(name(call.group)) + std::string(kKinds[static_cast<size_t>(call.kind)]);
}

}  // namespace rlreplay::engine
