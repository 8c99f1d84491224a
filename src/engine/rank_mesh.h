#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/base/descriptor.h"
#include "src/base/error.h"
#include "src/engine/rank_call.h"

namespace rlreplay::engine {

using SharedBytes = std::shared_ptr<const std::vector<std::byte>>;

/// A process's connections to the other ranks. One thread moves all bytes, so that sending never
/// waits for a receiver, and a rank that computes still answers: one that is silent for longer than
/// the limit is stopped or gone. Errors of every call but `fail`: what the rank that failed first
/// said; kEnvironment for a rank that is gone or silent, with who waits for whom; kInternal where
/// the ranks' calls do not go together or none can go on.
class RankMesh {
 public:
  /// `sockets`: connected to each rank in turn, with nothing at the own place.
  RankMesh(int rank, std::vector<Descriptor> sockets, std::chrono::milliseconds silence);
  /// Says that this rank has ended, and waits shortly for the others to hear it.
  ~RankMesh();
  RankMesh(const RankMesh&) = delete;
  RankMesh& operator=(const RankMesh&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// How messages name ranks, and how long one may be silent.
  void begin(const Layout& layout, std::chrono::milliseconds silence);
  std::chrono::milliseconds silence() const;

  /// `whole`: what both sides of the call must have alike, as its number of elements.
  void send(int to, const RankCall& call, SharedBytes bytes, uint64_t whole);
  std::vector<std::byte> receive(int from, const RankCall& call, uint64_t whole);

  /// Tells a rank something that it did not ask for; what is said before a `send` to the same rank
  /// is heard before. Waits while much is on its way.
  void note(int to, std::vector<std::byte> bytes);
  /// Who hears notes, on the thread that moves bytes; nobody from when the result ends.
  using Listener = std::function<void(int from, std::span<const std::byte> note)>;
  [[nodiscard]] std::shared_ptr<void> listen(Listener listener);

  /// Nothing where no rank has failed.
  void see_alive() const;
  /// Tells all ranks that this one has failed, unless another one had before.
  void fail(const Error& error);
  /// The rank that is at fault where a call has failed; -1 where none is named.
  int blamed() const;

 private:
  class Work;
  const int rank_, size_;
  std::unique_ptr<Work> work_;
};

}  // namespace rlreplay::engine
