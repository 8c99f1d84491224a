#include "src/engine/rank_frames.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <sys/socket.h>
#include <sys/uio.h>

namespace rlreplay::engine {
namespace {

constexpr int kReadsAtOnce = 8;  // then other ranks get their turn

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK; }

}  // namespace

bool FrameSocket::write(size_t& done) {
  while (!out_.empty()) {
    Frame& frame = out_.front();
    const size_t head = sizeof frame.header, body = frame.bytes ? frame.bytes->size() : 0;
    iovec parts[2];
    size_t count = 0;
    if (written_ < head) {
      parts[count++] = {reinterpret_cast<std::byte*>(&frame.header) + written_, head - written_};
    }
    const size_t of_body = written_ < head ? 0 : written_ - head;
    if (of_body < body) {
      parts[count++] = {const_cast<std::byte*>(frame.bytes->data()) + of_body, body - of_body};
    }
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = count;
    const ssize_t n = ::sendmsg(fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return would_block();
    written_ += static_cast<size_t>(n);
    if (written_ < head + body) continue;
    done += head + body;
    written_ = 0;
    out_.pop_front();
  }
  return true;
}

bool FrameSocket::read(std::span<std::byte> room, const Use& use) {
  for (int i = 0; i < kReadsAtOnce; ++i) {
    const ssize_t n = ::recv(fd(), room.data(), room.size(), MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return would_block();
    if (n == 0) return false;
    heard = Clock::now();
    if (!take(room.first(static_cast<size_t>(n)), use)) return false;
    if (static_cast<size_t>(n) < room.size()) return true;
  }
  return true;
}

bool FrameSocket::take(std::span<const std::byte> bytes, const Use& use) {
  while (!bytes.empty()) {
    if (head_read_ < head_.size()) {
      const size_t n = std::min(head_.size() - head_read_, bytes.size());
      std::memcpy(head_.data() + head_read_, bytes.data(), n);
      head_read_ += n;
      bytes = bytes.subspan(n);
      if (head_read_ < head_.size()) return true;
      std::memcpy(&header_, head_.data(), sizeof header_);
      if (header_.magic != FrameHeader::kMagic) return false;
    }
    // Grows as bytes come: what a header announces takes no memory yet.
    const size_t n = std::min(static_cast<size_t>(header_.size) - payload_.size(), bytes.size());
    payload_.insert(payload_.end(), bytes.data(), bytes.data() + n);
    bytes = bytes.subspan(n);
    if (payload_.size() < header_.size) return true;
    head_read_ = 0;
    use(header_, std::exchange(payload_, {}));
  }
  return true;
}

}  // namespace rlreplay::engine
