#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "src/engine/group.h"

namespace rlreplay::engine {

/// The groups of one rank over c10d's Gloo. Rank 0 has the store at `host`:`port` where all meet.
/// Errors of the groups: kEnvironment, in c10d's words.
class GlooRanks {
 public:
  GlooRanks(const std::string& host, uint16_t port, int rank, const Layout& layout,
            std::chrono::milliseconds timeout);
  ~GlooRanks();

  const Ranks& ranks() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace rlreplay::engine
