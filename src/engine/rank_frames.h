#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "src/base/descriptor.h"

namespace rlreplay::engine {

/// What stands before a frame's bytes.
struct FrameHeader {
  enum class Kind : uint8_t { kData, kNote, kState, kFail, kEnd };
  uint32_t magic = kMagic;
  Kind kind = Kind::kData;
  uint8_t group = 0, call = 0, unused = 0;
  uint64_t size = 0;   // bytes that follow
  uint64_t whole = 0;  // of data: elements of the call
  static constexpr uint32_t kMagic = 0x6b6e6172;
};

/// Bytes that every frame of one message to many ranks owns in common.
using SharedBytes = std::shared_ptr<const std::vector<std::byte>>;

/// A frame to be sent. Null: no bytes follow the header.
struct Frame {
  FrameHeader header;
  SharedBytes bytes;
};

/// One side of a stream of frames on a socket that does not block.
class FrameSocket {
 public:
  using Clock = std::chrono::steady_clock;

  explicit FrameSocket(Descriptor socket) : socket_(std::move(socket)) {}

  int fd() const { return socket_.get(); }
  [[nodiscard]] bool is_open() const { return static_cast<bool>(socket_); }
  void close() { socket_.close(); }

  void queue(Frame frame) { out_.push_back(std::move(frame)); }
  [[nodiscard]] bool has_output() const { return !out_.empty(); }
  /// Writes what goes without waiting, and returns the bytes of the frames that are done. False
  /// where the other side is gone.
  [[nodiscard]] bool write(size_t& done);

  using Use = std::function<void(const FrameHeader&, std::vector<std::byte>)>;
  /// Reads what is there, some of it at least, through `room`, and hands out each frame that is
  /// whole. False where the other side is gone or sends no frames.
  [[nodiscard]] bool read(std::span<std::byte> room, const Use& use);
  Clock::time_point heard = Clock::now();  // when something was read

 private:
  [[nodiscard]] bool take(std::span<const std::byte> bytes, const Use& use);

  Descriptor socket_;
  std::deque<Frame> out_;
  size_t written_ = 0;  // of the first frame, header included
  std::array<std::byte, sizeof(FrameHeader)> head_{};
  size_t head_read_ = 0;
  FrameHeader header_;
  std::vector<std::byte> payload_;
};

}  // namespace rlreplay::engine
