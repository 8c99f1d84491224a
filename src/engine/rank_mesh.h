#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "src/base/descriptor.h"
#include "src/base/error.h"
#include "src/engine/packed.h"
#include "src/engine/rank_call.h"
#include "src/engine/rank_frames.h"
#include "src/engine/rank_watch.h"

namespace rlreplay::engine {

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
  [[nodiscard]] std::vector<std::byte> receive(int from, const RankCall& call, uint64_t whole);

  /// Tells a rank something that it did not ask for; what is said before a `send` to the same rank
  /// is heard before. Waits while much is on its way.
  void note(int to, std::vector<std::byte> bytes);
  /// Who hears notes, on the thread that moves bytes; nobody from when the result ends.
  using Listener = std::function<void(int from, std::span<const std::byte> note)>;
  [[nodiscard]] std::shared_ptr<void> listen(Listener listener);

  /// Errors: those of every call, where a rank has failed.
  void see_alive() const;
  /// Tells all ranks that this one has failed, unless another one had before.
  void fail(const Error& error);
  /// `came`, asked with every beat: whether a signal ends this process. The others hear it.
  void tell_interrupt(std::function<bool()> came);
  /// Whether a rank was heard to say so.
  [[nodiscard]] bool is_interrupted(int rank) const;
  /// The rank that is at fault where a call has failed; -1 where none is named.
  int blamed() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Arrived {
    RankCall call;
    uint64_t whole;
    std::vector<std::byte> bytes;
  };
  struct Failure {
    ErrorCode code;
    int blamed;
    std::string message, where;
  };

  static SharedBytes packed(const RankState& state);
  /// Messages and parts of a pair come apart from the calls that the whole group makes.
  std::deque<Arrived>& inbox_of(int from, const RankCall& call);
  void wake_io();
  void queue(int to, Frame frame);
  void to_all(const Frame& frame);
  Error ended_error(int from, const RankCall& call) const;
  /// The failure, what this rank does, and what others were last heard to wait for.
  void throw_failure(const char* does, const RankCall& call) const;
  /// Keeps the first failure, tells it to all ranks, those too that see the same, and wakes who
  /// waits. With the lock.
  void fail_with(Failure failure);

  // Of the thread that moves bytes.
  void move_bytes();
  /// Whether all that had to be said is said, and heard, or nobody can be waited for any longer.
  [[nodiscard]] bool has_left();
  void take_queued();
  void write_to(size_t i);
  void read_from(size_t i);
  void lost(size_t i);
  void use(int from, const FrameHeader& header, std::vector<std::byte> bytes);
  void hear_failure(Unpacker& unpacker);
  void use_note(int from, std::span<const std::byte> bytes);
  void beat();
  void look_for_silent(Clock::time_point now);
  void look_for_stuck();

  // Under mutex_ callers and the thread that moves bytes share what is to be sent (queued_) and
  // what has come (inboxes_, on which callers wait by wake_). The first failure is kept, told to
  // all ranks and thrown by every later call.
  const int rank_, size_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  Layout layout_;
  std::chrono::milliseconds silence_;
  std::optional<Failure> failure_;
  std::optional<Clock::time_point> leave_by_;
  RankState own_;
  std::function<bool()> interrupted_;
  RankWatch watch_;
  std::map<std::tuple<int, RankGroup, RankCall::Kind>, std::deque<Arrived>> inboxes_;
  std::vector<std::pair<int, Frame>> queued_;
  std::vector<size_t> on_its_way_;  // bytes, by rank

  // Notes are heard on the thread that moves bytes, under a mutex of their own: a listener may
  // call `fail`.
  std::mutex listener_mutex_;
  Listener listener_;

  const Descriptor wake_io_;
  // Of the thread that moves bytes.
  std::vector<FrameSocket> peers_;
  std::vector<std::byte> room_ = std::vector<std::byte>(size_t{256} << 10);
  std::vector<std::optional<Clock::time_point>> gone_since_;
  Clock::time_point next_beat_;
  std::thread thread_;
};

}  // namespace rlreplay::engine
