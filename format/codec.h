#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace rlreplay::format {

/// Bytes that a compressed chunk of `bytes` bytes needs at most.
[[nodiscard]] size_t frame_bound(size_t bytes);

/// Turns chunks into zstd frames, each with its content size and a checksum. One a thread.
class ChunkEncoder {
 public:
  explicit ChunkEncoder(int level);
  ~ChunkEncoder();
  ChunkEncoder(ChunkEncoder&&) noexcept;

  /// Compresses `chunk` into `frame` (of frame_bound bytes at least) and returns the frame's size.
  /// The frame depends on the chunk and the level alone.
  [[nodiscard]] size_t encode(std::span<const std::byte> chunk, std::span<std::byte> frame);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The size that a frame announces for its chunk; 0 when it announces none.
[[nodiscard]] size_t announced_size(std::span<const std::byte> frame);

/// Why a frame cannot be a chunk; kNone when it was decoded.
enum class FrameFault { kNone, kNotOneFrame, kNoChecksum, kWrongSize, kDamaged };

[[nodiscard]] const char* to_string(FrameFault fault);

/// Turns frames back into chunks. One a thread.
class ChunkDecoder {
 public:
  /// checksums: whether those in the frames are compared with the content; only a caller who has
  /// hashes of his own of both does without.
  explicit ChunkDecoder(bool checksums = true);
  ~ChunkDecoder();
  ChunkDecoder(ChunkDecoder&&) noexcept;

  /// Decodes `frame` into `chunk`, which it must fill exactly; no other memory is taken for it.
  [[nodiscard]] FrameFault decode(std::span<const std::byte> frame, std::span<std::byte> chunk);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rlreplay::format
