#include "src/engine/rank_watch.h"

namespace rlreplay::engine {
namespace {

constexpr int kStuckBeats = 4;  // as often all ranks say that they wait, and move nothing
constexpr int kFreshBeats = 2;  // one that sends much says nothing else
constexpr int kOthersTold = 3;

}  // namespace

RankState take_state(Unpacker& from, int ranks, const std::string& sender) {
  const auto out = from.take<RankState>();
  if (out.waits_for >= -1 && out.waits_for < ranks && out.interrupted <= 1 &&
      static_cast<int>(out.call.group) < kGroupCount &&
      static_cast<uint8_t>(out.call.kind) < kRankCallKinds) {
    return out;
  }
  throw Error(ErrorCode::kInternal, sender +
                                        " sent a state that no rank can be in: its memory, or "
                                        "the way to it, is faulty");
}

std::string waiting_text(const Layout& layout, int rank, const RankState& state) {
  return rank_name(layout, rank) + " waits in " + to_string(state.call) + " for " +
         rank_name(layout, state.waits_for);
}

void RankWatch::hear(int rank, const RankState& state) {
  Heard& heard = at(rank);
  const bool same = state.waits_for >= 0 && state.waits == heard.state.waits;
  heard.times = same ? heard.times + 1 : 0;
  heard.state = state;
  heard.silent = 0;
}

void RankWatch::beat() {
  for (Heard& heard : heard_) ++heard.silent;
}

std::string RankWatch::others(const Layout& layout, int blamed) const {
  std::string out;
  int told = 0;
  for (int i = 0; i < static_cast<int>(heard_.size()) && told < kOthersTold; ++i) {
    const Heard& other = heard_[static_cast<size_t>(i)];
    if (i == self_ || i == blamed || other.ended || other.state.waits_for < 0) continue;
    if (other.state.call.kind == RankCall::Kind::kOrder) continue;
    out += "; " + waiting_text(layout, i, other.state);
    ++told;
  }
  return out;
}

std::optional<std::string> RankWatch::stuck(const Layout& layout) const {
  uint64_t sent = 0, received = 0;
  std::optional<std::string> out;
  for (size_t i = 0; i < heard_.size(); ++i) {
    const Heard& heard = heard_[i];
    sent += heard.state.sent;
    received += heard.state.received;
    if (heard.ended) continue;
    if (heard.times < kStuckBeats || heard.silent > kFreshBeats) return std::nullopt;
    if (!out) out = waiting_text(layout, static_cast<int>(i), heard.state);
  }
  return sent == received ? out : std::nullopt;
}

}  // namespace rlreplay::engine
