#include "src/engine/rank_mesh.h"

#include <algorithm>
#include <utility>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "src/base/environment_error.h"
#include "src/base/thread_pool.h"
#include "src/engine/packed.h"

namespace rlreplay::engine {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Lock = std::unique_lock<std::mutex>;

constexpr auto kBeat = 250ms;       // how often a rank says what it does
constexpr auto kGoneAfter = 300ms;  // so that the others' reason comes first, if they have one
constexpr auto kPause = 2s;         // longer than this between two beats: this process was stopped
constexpr auto kFarewell = 2s;      // how long an end waits until all have heard of it
constexpr size_t kMostOnItsWay = size_t{64} << 20;  // bytes, where a note waits

std::string seconds(std::chrono::milliseconds time) {
  const auto n = time.count();
  return n % 1000 == 0 ? std::to_string(n / 1000) + " s" : std::to_string(n) + " ms";
}

}  // namespace

RankMesh::RankMesh(int rank, std::vector<Descriptor> sockets, std::chrono::milliseconds silence)
    : rank_(rank),
      size_(static_cast<int>(sockets.size())),
      silence_(silence),
      watch_(size_, rank),
      wake_io_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wake_io_) throw environment_error("cannot open an event file");
  for (Descriptor& socket : sockets) peers_.emplace_back(FrameSocket(std::move(socket)));
  gone_since_.resize(peers_.size());
  on_its_way_.resize(peers_.size());
  next_beat_ = Clock::now() + kBeat;
  thread_ = start_thread([this] { move_bytes(); });
}

RankMesh::~RankMesh() {
  {
    const Lock lock(mutex_);
    if (!failure_) to_all({{.kind = FrameHeader::Kind::kEnd}, packed(own_)});
    leave_by_ = Clock::now() + kFarewell;
  }
  wake_io();
  thread_.join();
}

void RankMesh::begin(const Layout& layout, std::chrono::milliseconds silence) {
  const Lock lock(mutex_);
  layout_ = layout;
  silence_ = silence;
}

std::chrono::milliseconds RankMesh::silence() const {
  const Lock lock(mutex_);
  return silence_;
}

void RankMesh::send(int to, const RankCall& call, SharedBytes bytes, uint64_t whole) {
  {
    const Lock lock(mutex_);
    throw_failure(" is in ", call);
    ++own_.sent;
    FrameHeader header{.kind = FrameHeader::Kind::kData};
    header.group = static_cast<uint8_t>(call.group);
    header.call = static_cast<uint8_t>(call.kind);
    header.whole = whole;
    queue(to, {header, std::move(bytes)});
  }
  wake_io();
}

/// What has come is taken even where the other rank has ended since: it may have ended behind its
/// last message.
std::vector<std::byte> RankMesh::receive(int from, const RankCall& call, uint64_t whole) {
  Lock lock(mutex_);
  std::deque<Arrived>& inbox = inbox_of(from, call);
  throw_failure(" is in ", call);
  if (inbox.empty()) {
    own_.call = call;
    own_.waits_for = from;
    ++own_.waits;
    wake_.wait(lock, [&] { return !inbox.empty() || failure_ || watch_.has_ended(from); });
    throw_failure(" waits in ", call);
    own_.waits_for = -1;
    if (inbox.empty()) throw ended_error(from, call);
  }
  Arrived arrived = std::move(inbox.front());
  inbox.pop_front();
  if (arrived.call != call) {
    throw Error(ErrorCode::kInternal, rank_name(layout_, from) + " is in " +
                                          to_string(arrived.call) + " and " +
                                          rank_name(layout_, rank_) + " in " + to_string(call));
  }
  if (arrived.whole != whole) {
    throw Error(ErrorCode::kInternal, to_string(call) + ": " + std::to_string(arrived.whole) +
                                          " came from " + rank_name(layout_, from) + " and " +
                                          std::to_string(whole) + " were expected");
  }
  return std::move(arrived.bytes);
}

void RankMesh::note(int to, std::vector<std::byte> bytes) {
  {
    Lock lock(mutex_);
    const RankCall call{RankGroup::kWorld, RankCall::Kind::kMessage};
    size_t& on_its_way = on_its_way_[static_cast<size_t>(to)];
    wake_.wait(lock, [&] { return on_its_way < kMostOnItsWay || failure_; });
    throw_failure(" is in ", call);
    ++own_.sent;
    queue(to, {{.kind = FrameHeader::Kind::kNote},
               std::make_shared<std::vector<std::byte>>(std::move(bytes))});
  }
  wake_io();
}

std::shared_ptr<void> RankMesh::listen(Listener listener) {
  const std::lock_guard lock(listener_mutex_);
  listener_ = std::move(listener);
  // It owns nothing: its end takes the listener back.
  return std::shared_ptr<void>(this, [](void* mesh) {
    auto* self = static_cast<RankMesh*>(mesh);
    const std::lock_guard own(self->listener_mutex_);
    self->listener_ = {};
  });
}

void RankMesh::see_alive() const {
  const Lock lock(mutex_);
  if (failure_) {
    const std::string alone = "; " + rank_name(layout_, rank_) + " works alone";
    throw Error(failure_->code,
                failure_->message + alone + watch_.others(layout_, failure_->blamed),
                failure_->where);
  }
}

void RankMesh::fail(const Error& error) {
  {
    const Lock lock(mutex_);
    fail_with(
        {error.code(), rank_, rank_name(layout_, rank_) + ": " + error.what(), error.where()});
  }
  wake_io();
}

void RankMesh::tell_interrupt(std::function<bool()> came) {
  const Lock lock(mutex_);
  interrupted_ = std::move(came);
}

bool RankMesh::is_interrupted(int rank) const {
  const Lock lock(mutex_);
  return watch_.is_interrupted(rank);
}

int RankMesh::blamed() const {
  const Lock lock(mutex_);
  return failure_ ? failure_->blamed : -1;
}

SharedBytes RankMesh::packed(const RankState& state) {
  return std::make_shared<std::vector<std::byte>>(Packer().add(state).take());
}

std::deque<RankMesh::Arrived>& RankMesh::inbox_of(int from, const RankCall& call) {
  using Kind = RankCall::Kind;
  const bool apart = call.kind == Kind::kMessage || call.kind == Kind::kPart;
  return inboxes_[{from, call.group, apart ? call.kind : Kind::kOrder}];
}

void RankMesh::wake_io() {
  const uint64_t one = 1;
  // It fails only where the counter is full, and then the thread is woken anyway.
  [[maybe_unused]] const ssize_t n = ::write(wake_io_.get(), &one, sizeof one);
}

void RankMesh::queue(int to, Frame frame) {
  frame.header.size = frame.bytes ? frame.bytes->size() : 0;
  on_its_way_[static_cast<size_t>(to)] += sizeof frame.header + frame.header.size;
  queued_.emplace_back(to, std::move(frame));
}
void RankMesh::to_all(const Frame& frame) {
  for (int i = 0; i < static_cast<int>(peers_.size()); ++i) {
    if (i != rank_) queue(i, frame);
  }
}

Error RankMesh::ended_error(int from, const RankCall& call) const {
  return Error(ErrorCode::kInternal, "ranks wait and none can go on: " + rank_name(layout_, from) +
                                         " has ended; " + rank_name(layout_, rank_) + " waits in " +
                                         to_string(call));
}

void RankMesh::throw_failure(const char* does, const RankCall& call) const {
  if (!failure_) return;
  std::string text = failure_->message;
  if (failure_->blamed != rank_) {
    text += "; " + rank_name(layout_, rank_) + does + to_string(call);
    if (own_.waits_for >= 0) text += " for " + rank_name(layout_, own_.waits_for);
  }
  text += watch_.others(layout_, failure_->blamed);
  throw Error(failure_->code, text, failure_->where);
}

// The first failure is the cause; what others report afterwards follows from it.
void RankMesh::fail_with(Failure failure) {
  if (failure_ || leave_by_) return;
  failure_ = std::move(failure);
  Packer packer;
  packer.add(failure_->code).add(failure_->blamed).add(failure_->message).add(failure_->where);
  to_all({{.kind = FrameHeader::Kind::kFail},
          std::make_shared<std::vector<std::byte>>(packer.take())});
  wake_.notify_all();
}

void RankMesh::move_bytes() {
  std::vector<pollfd> files(peers_.size() + 1);
  while (!has_left()) {
    take_queued();
    files[0] = {wake_io_.get(), POLLIN, 0};
    for (size_t i = 0; i < peers_.size(); ++i) {
      const auto events = POLLIN | (peers_[i].has_output() ? POLLOUT : 0);
      files[i + 1] = {peers_[i].is_open() ? peers_[i].fd() : -1, static_cast<short>(events), 0};
    }
    ::poll(files.data(), files.size(), static_cast<int>(kBeat / 1ms));
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t n = ::read(wake_io_.get(), &count, sizeof count);
    for (size_t i = 0; i < peers_.size(); ++i) {
      const short events = files[i + 1].revents;
      if (!peers_[i].is_open() || events == 0) continue;
      if ((events & POLLOUT) != 0) write_to(i);
      if ((events & (POLLIN | POLLHUP | POLLERR)) != 0) read_from(i);
    }
    if (Clock::now() >= next_beat_) beat();
  }
}

bool RankMesh::has_left() {
  const Lock lock(mutex_);
  if (!leave_by_) return false;
  if (Clock::now() >= *leave_by_) return true;
  if (!queued_.empty()) return false;
  for (size_t i = 0; i < peers_.size(); ++i) {
    if (peers_[i].is_open() && (peers_[i].has_output() || !watch_.has_ended(static_cast<int>(i))))
      return false;
  }
  return true;
}

void RankMesh::take_queued() {
  const Lock lock(mutex_);
  for (auto& [to, frame] : std::exchange(queued_, {})) {
    FrameSocket& peer = peers_[static_cast<size_t>(to)];
    if (peer.is_open()) peer.queue(std::move(frame));
  }
}

void RankMesh::write_to(size_t i) {
  size_t done = 0;
  const bool open = peers_[i].write(done);
  if (!open) lost(i);
  if (done == 0) return;
  const Lock lock(mutex_);
  on_its_way_[i] -= done;
  wake_.notify_all();
}

void RankMesh::read_from(size_t i) {
  if (!peers_[i].is_open()) return;
  const bool open =
      peers_[i].read(room_, [&](const FrameHeader& header, std::vector<std::byte> bytes) {
        use(static_cast<int>(i), header, std::move(bytes));
      });
  if (!open) lost(i);
}

void RankMesh::lost(size_t i) {
  peers_[i].close();
  gone_since_[i] = Clock::now();
}

void RankMesh::use(int from, const FrameHeader& header, std::vector<std::byte> bytes) {
  if (header.kind == FrameHeader::Kind::kNote) return use_note(from, bytes);
  const Lock lock(mutex_);
  try {
    Unpacker unpacker(bytes);
    const auto state_from = [&] { return take_state(unpacker, size_, rank_name(layout_, from)); };
    switch (header.kind) {
      case FrameHeader::Kind::kState:
        return watch_.hear(from, state_from());
      case FrameHeader::Kind::kEnd:
        watch_.hear(from, state_from());
        watch_.end(from);
        break;
      case FrameHeader::Kind::kFail:
        hear_failure(unpacker);
        watch_.end(from);
        break;
      default: {
        // Any byte becomes a call, a wrong one a call that `receive` does not find or refuses.
        const RankCall call{static_cast<RankGroup>(header.group % kGroupCount),
                            static_cast<RankCall::Kind>(header.call % kRankCallKinds)};
        ++own_.received;
        inbox_of(from, call).push_back({call, header.whole, std::move(bytes)});
      }
    }
    wake_.notify_all();
  } catch (const Error& e) {
    fail_with({e.code(), from, e.what(), {}});
  }
}

void RankMesh::hear_failure(Unpacker& unpacker) {
  Failure failure{};
  unpacker.take(failure.code);
  unpacker.take(failure.blamed);
  unpacker.take(failure.message);
  unpacker.take(failure.where);
  if (!failure_) failure_ = std::move(failure);
}

void RankMesh::use_note(int from, std::span<const std::byte> bytes) {
  try {
    const std::lock_guard lock(listener_mutex_);
    if (listener_) listener_(from, bytes);
    const Lock own(mutex_);
    ++own_.received;  // when it was answered, if it had to be
  } catch (const Error& e) {
    fail(e);
  } catch (const std::exception& e) {
    fail(Error(ErrorCode::kInternal, e.what()));
  }
}

void RankMesh::beat() {
  const auto now = Clock::now();
  const bool paused = now - next_beat_ > kPause;
  next_beat_ = now + kBeat;
  const Lock lock(mutex_);
  const bool news = own_.interrupted == 0 && interrupted_ && interrupted_();
  if (news) own_.interrupted = 1;
  watch_.beat();
  watch_.hear(rank_, own_);
  const SharedBytes own = packed(own_);
  for (size_t i = 0; i < peers_.size(); ++i) {
    if (paused) peers_[i].heard = now;
    if (!peers_[i].is_open() || (peers_[i].has_output() && !news)) continue;
    Frame frame{{.kind = FrameHeader::Kind::kState}, own};
    frame.header.size = own->size();
    on_its_way_[i] += sizeof frame.header + own->size();
    peers_[i].queue(std::move(frame));
  }
  look_for_silent(now);
  look_for_stuck();
}

void RankMesh::look_for_silent(Clock::time_point now) {
  for (size_t i = 0; i < peers_.size(); ++i) {
    const int rank = static_cast<int>(i);
    if (rank == rank_ || watch_.has_ended(rank)) continue;
    if (gone_since_[i] && now - *gone_since_[i] >= kGoneAfter) {
      fail_with({ErrorCode::kEnvironment,
                 rank,
                 rank_name(layout_, rank) + " is gone: its process has ended",
                 {}});
    } else if (!gone_since_[i] && now - peers_[i].heard > silence_) {
      fail_with({ErrorCode::kEnvironment,
                 rank,
                 rank_name(layout_, rank) + " has been silent for " + seconds(silence_) +
                     ": its process is stopped, or its machine cannot be reached",
                 {}});
    }
  }
}

// All wait, and nothing is on its way: they would for ever, without one being silent or gone.
void RankMesh::look_for_stuck() {
  if (const auto text = watch_.stuck(layout_)) {
    fail_with({ErrorCode::kInternal, -1, "ranks wait and none can go on: " + *text, {}});
  }
}

}  // namespace rlreplay::engine
