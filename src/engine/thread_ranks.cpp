#include "src/engine/thread_ranks.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/base/error.h"
#include "src/base/thread_pool.h"
#include "src/engine/rank_groups.h"

namespace rlreplay::engine {
namespace {

/// Ends a rank because another one failed; it never leaves this file.
struct Stopped {};

using Lock = std::unique_lock<std::mutex>;

/// What all ranks share: who waits where, and whether one has failed.
class World {
 public:
  explicit World(const Layout& layout)
      : layout_(layout),
        waits_in_(static_cast<size_t>(layout.ranks())),
        unfinished_(layout.ranks()) {}

  Lock lock() {
    Lock out(mutex_);
    if (error_) throw Stopped();
    return out;
  }

  /// Waits until `released`, which whoever sets it announces by `release`.
  void wait(Lock& lock, int rank, const std::string& what, const bool& released) {
    waits_in_[static_cast<size_t>(rank)] = what;
    ++blocked_;
    fail_if_stuck();
    wake_.wait(lock, [&] { return released || error_; });
    if (!released) throw Stopped();
    waits_in_[static_cast<size_t>(rank)].clear();
  }

  /// The caller holds the lock and has set what `count` ranks wait for.
  void release(int count) {
    blocked_ -= count;
    wake_.notify_all();
  }

  void finish(int rank) {
    const Lock lock(mutex_);
    --unfinished_;
    ended_ = rank;
    fail_if_stuck();
  }

  void fail(int rank, ErrorCode code, const std::string& message, const std::string& where) {
    const Lock lock(mutex_);
    if (error_) return;
    const std::string others = waiting();
    error_.emplace(
        code, rank_name(layout_, rank) + ": " + message + (others.empty() ? "" : "; " + others),
        where);
    wake_.notify_all();
  }

  std::string name(int rank) const { return rank_name(layout_, rank); }

  /// Throws the error of the rank that failed first, if one has; called after all ranks have ended.
  void rethrow() const {
    if (error_) throw Error(*error_);
  }

 private:
  /// "rank 0 (tp 0) waits in tp gather", of the first that waits.
  std::string waiting() const {
    for (size_t i = 0; i < waits_in_.size(); ++i) {
      if (!waits_in_[i].empty()) return name(static_cast<int>(i)) + " waits in " + waits_in_[i];
    }
    return {};
  }

  void fail_if_stuck() {
    if (error_ || blocked_ == 0 || blocked_ < unfinished_) return;
    const std::string ended = ended_ ? name(*ended_) + " has ended; " : "";
    error_.emplace(ErrorCode::kInternal, "ranks wait and none can go on: " + ended + waiting());
    wake_.notify_all();
  }

  const Layout layout_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::string> waits_in_;  // by rank; empty: it works
  int unfinished_;
  int blocked_ = 0;  // ranks that wait for what has not come
  std::optional<int> ended_;
  std::optional<Error> error_;
};

/// What the ranks of one group share.
class Hub {
 public:
  Hub(World& world, std::string name, std::vector<int> members)
      : world_(world),
        name_(std::move(name)),
        members_(std::move(members)),
        slots_(members_.size()) {}

  /// What a rank gives; the others read it until all are in `leave`.
  struct Slot {
    const std::byte* own = nullptr;
    int64_t* values = nullptr;
    size_t size = 0;
  };

  int size() const { return static_cast<int>(members_.size()); }
  const Slot& slot(int rank) const { return slots_[static_cast<size_t>(rank)]; }

  /// Returns when every rank of the group is here with the same call.
  void enter(int rank, std::string_view call, const Slot& slot) {
    Lock lock = world_.lock();
    slots_[static_cast<size_t>(rank)] = slot;
    meet(lock, rank, call);
    check_sizes(call);
  }

  void leave(int rank, std::string_view call) {
    Lock lock = world_.lock();
    meet(lock, rank, call);
  }

  void send(int from, int to, std::span<const std::byte> bytes) {
    const Lock lock = world_.lock();
    Box& box = boxes_[{from, to}];
    box.messages.emplace_back(bytes.begin(), bytes.end());
    if (!box.waits) return;
    box.waits = false;
    box.come = true;
    world_.release(1);
  }

  void receive(int from, int to, std::span<std::byte> bytes) {
    Lock lock = world_.lock();
    Box& box = boxes_[{from, to}];
    if (box.messages.empty()) {
      box.waits = true;
      box.come = false;
      world_.wait(lock, member(to), name_ + " receive from " + world_.name(member(from)), box.come);
    }
    const std::vector<std::byte> message = std::move(box.messages.front());
    box.messages.pop_front();
    if (message.size() != bytes.size()) {
      throw Error(ErrorCode::kInternal, name_ + " receive: a message of " +
                                            std::to_string(message.size()) + " bytes came and " +
                                            std::to_string(bytes.size()) + " were expected");
    }
    if (!bytes.empty()) std::memcpy(bytes.data(), message.data(), bytes.size());
  }

 private:
  struct Box {
    std::deque<std::vector<std::byte>> messages;
    bool waits = false;  // the receiver
    bool come = false;
  };

  void meet(Lock& lock, int rank, std::string_view call) {
    if (here_ > 0 && present_ != call) disagree(rank, call, present_);
    present_ = call;
    if (++here_ == size()) {
      here_ = 0;
      *gone_ = true;
      world_.release(size() - 1);
      gone_ = std::make_shared<bool>(false);
      return;
    }
    const std::shared_ptr<bool> gone = gone_;
    world_.wait(lock, member(rank), name_ + " " + std::string(call), *gone);
  }

  /// That all ranks gave as much. Every rank throws where one of them did not.
  void check_sizes(std::string_view call) const {
    const auto differs = [&](const Slot& s) { return s.size != slots_.front().size; };
    if (std::ranges::none_of(slots_, differs)) return;
    throw Error(ErrorCode::kInternal,
                name_ + " " + std::string(call) + ": the ranks give different numbers of bytes");
  }

  int member(int rank) const { return members_[static_cast<size_t>(rank)]; }

  [[noreturn]] void disagree(int rank, std::string_view call, std::string_view other) const {
    throw Error(ErrorCode::kInternal, world_.name(member(rank)) + " is in " + name_ + " " +
                                          std::string(call) + " and others in " + name_ + " " +
                                          std::string(other));
  }

  World& world_;
  const std::string name_;
  const std::vector<int> members_;  // ranks of the world
  std::vector<Slot> slots_;
  std::string_view present_;
  int here_ = 0;
  std::shared_ptr<bool> gone_ = std::make_shared<bool>(false);  // of one meeting: who waits has it
  std::map<std::pair<int, int>, Box> boxes_;
};

class ThreadGroup : public Group {
 public:
  ThreadGroup(Hub& hub, int rank) : hub_(hub), rank_(rank) {}

  int size() const override { return hub_.size(); }
  int rank() const override { return rank_; }

  void gather(std::span<const std::byte> own, std::span<std::byte> all) override {
    check(all.size() == own.size() * static_cast<size_t>(size()),
          "a gather needs room for what every rank gives");
    hub_.enter(rank_, "gather", {own.data(), nullptr, own.size()});
    for (int i = 0; i < size() && !own.empty(); ++i) {
      std::memcpy(all.data() + static_cast<size_t>(i) * own.size(), hub_.slot(i).own, own.size());
    }
    hub_.leave(rank_, "gather");
  }

  void sum(std::span<int64_t> values) override {
    hub_.enter(rank_, "sum", {nullptr, values.data(), values.size()});
    // Each rank adds a share of the elements and writes it to all: nobody else touches that share.
    const size_t n = values.size(), ranks = static_cast<size_t>(size());
    const size_t begin = n * static_cast<size_t>(rank_) / ranks;
    const size_t end = n * static_cast<size_t>(rank_ + 1) / ranks;
    for (size_t i = begin; i < end; ++i) {
      uint64_t sum = 0;
      for (int r = 0; r < size(); ++r) sum += static_cast<uint64_t>(hub_.slot(r).values[i]);
      for (int r = 0; r < size(); ++r) hub_.slot(r).values[i] = static_cast<int64_t>(sum);
    }
    hub_.leave(rank_, "sum");
  }

  void send(int to, std::span<const std::byte> bytes) override { hub_.send(rank_, to, bytes); }
  void receive(int from, std::span<std::byte> bytes) override { hub_.receive(from, rank_, bytes); }

 private:
  Hub& hub_;
  const int rank_;
};

/// The hubs of all groups of a layout.
class Hubs {
 public:
  Hubs(World& world, const Layout& layout) : world_(world), layout_(layout) {}

  Ranks ranks(int rank) {
    const RankPlace place = place_of(layout_, rank);
    const GroupMembers groups = groups_of(layout_, place);
    const auto group = [&](RankGroup which) -> Group& {
      return member_of(which, groups[static_cast<size_t>(which)], rank);
    };
    return {layout_,
            place,
            group(RankGroup::kWorld),
            group(RankGroup::kDp),
            group(RankGroup::kTp),
            group(RankGroup::kPp),
            group(RankGroup::kCp)};
  }

 private:
  Group& member_of(RankGroup which, const std::vector<int>& members, int rank) {
    std::unique_ptr<Hub>& hub = hubs_[{which, members.front()}];
    if (!hub) hub = std::make_unique<Hub>(world_, std::string(name(which)), members);
    const auto self = std::ranges::find(members, rank) - members.begin();
    return *groups_.emplace_back(std::make_unique<ThreadGroup>(*hub, static_cast<int>(self)));
  }

  World& world_;
  const Layout layout_;
  std::map<std::pair<RankGroup, int>, std::unique_ptr<Hub>> hubs_;  // by name and first member
  std::vector<std::unique_ptr<ThreadGroup>> groups_;
};

void run_rank(World& world, int rank, const Ranks& ranks,
              const std::function<void(const Ranks&)>& work) {
  try {
    work(ranks);
  } catch (const Stopped&) {
    return;
  } catch (const Error& e) {
    return world.fail(rank, e.code(), e.what(), e.where());
  } catch (const std::bad_alloc&) {
    return world.fail(rank, ErrorCode::kEnvironment, "there is not enough memory", {});
  } catch (const std::exception& e) {
    return world.fail(rank, ErrorCode::kInternal, e.what(), {});
  }
  world.finish(rank);
}

}  // namespace

void run_thread_ranks(const Layout& layout, const std::function<void(const Ranks&)>& work) {
  World world(layout);
  Hubs hubs(world, layout);
  std::vector<Ranks> ranks;
  for (int i = 0; i < layout.ranks(); ++i) ranks.push_back(hubs.ranks(i));
  std::vector<std::thread> threads;
  for (int i = 1; i < layout.ranks(); ++i) {
    try {
      threads.push_back(
          start_thread([&, i] { run_rank(world, i, ranks[static_cast<size_t>(i)], work); }));
    } catch (const Error& e) {
      world.fail(i, e.code(), e.what(), e.where());
      break;
    }
  }
  run_rank(world, 0, ranks[0], work);
  for (std::thread& t : threads) t.join();
  world.rethrow();
}

}  // namespace rlreplay::engine
