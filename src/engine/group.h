#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "src/base/layout.h"

namespace rlreplay::engine {

/// Ranks that move bytes or add integers together: nothing here can round, so the order in which
/// parts arrive cannot change a bit (docs/numerics.md section 7). All ranks of a group make the
/// same calls in the same order, but for send and receive, which meet in pairs. Errors: what the
/// rank that failed first threw, where another one failed; kInternal where the ranks' calls do not
/// go together.
class Group {
 public:
  virtual ~Group() = default;
  virtual int size() const = 0;
  virtual int rank() const = 0;  // in the group

  /// all = the ranks' `own`, one after the other. Shapes: own of equal size; all size() times that.
  virtual void gather(std::span<const std::byte> own, std::span<std::byte> all) = 0;
  /// values = the sum of all ranks' values, modulo 2^64. Shapes: equal.
  virtual void sum(std::span<int64_t> values) = 0;
  /// Does not wait for the receiver; messages of a pair of ranks arrive in the order of sending.
  virtual void send(int to, std::span<const std::byte> bytes) = 0;
  /// Waits for a message, which must have this size.
  virtual void receive(int from, std::span<std::byte> bytes) = 0;
};

/// The groups that a rank of a layout is in.
struct Ranks {
  Layout layout;
  RankPlace place;
  Group& world;
  Group& dp;
  Group& tp;
  Group& pp;
  Group& cp;
};

}  // namespace rlreplay::engine
