#include "format/codec.h"

#include <cstdint>
#include <new>

#define ZSTD_STATIC_LINKING_ONLY  // for ZSTD_d_forceIgnoreChecksum
#include <zstd.h>

#include "format/libraries.h"
#include "src/base/error.h"

namespace rlreplay::format {

size_t frame_bound(size_t bytes) { return ZSTD_compressBound(bytes); }

struct ChunkEncoder::State {
  struct Deleter {
    void operator()(ZSTD_CCtx* p) const { ZSTD_freeCCtx(p); }
  };
  std::unique_ptr<ZSTD_CCtx, Deleter> context{ZSTD_createCCtx()};
};

ChunkEncoder::ChunkEncoder(int level) : state_(std::make_unique<State>()) {
  if (state_->context == nullptr) throw std::bad_alloc();
  const bool set =
      !ZSTD_isError(
          ZSTD_CCtx_setParameter(state_->context.get(), ZSTD_c_compressionLevel, level)) &&
      !ZSTD_isError(ZSTD_CCtx_setParameter(state_->context.get(), ZSTD_c_checksumFlag, 1)) &&
      !ZSTD_isError(ZSTD_CCtx_setParameter(state_->context.get(), ZSTD_c_contentSizeFlag, 1));
  check(set, "zstd refused the parameters of a chunk");
}
ChunkEncoder::~ChunkEncoder() = default;
ChunkEncoder::ChunkEncoder(ChunkEncoder&&) noexcept = default;

size_t ChunkEncoder::encode(std::span<const std::byte> chunk, std::span<std::byte> frame) {
  const size_t size =
      ZSTD_compress2(state_->context.get(), frame.data(), frame.size(), chunk.data(), chunk.size());
  if (ZSTD_isError(size)) {
    throw Error(ErrorCode::kInternal,
                std::string("zstd could not compress a chunk: ") + ZSTD_getErrorName(size));
  }
  return size;
}

size_t announced_size(std::span<const std::byte> frame) {
  const auto size = ZSTD_getFrameContentSize(frame.data(), frame.size());
  return size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN
             ? 0
             : static_cast<size_t>(size);
}

const char* to_string(FrameFault fault) {
  switch (fault) {
    case FrameFault::kNone:
      return "sound";
    case FrameFault::kNotOneFrame:
      return "not exactly one zstd frame";
    case FrameFault::kNoChecksum:
      return "a zstd frame without checksum";
    case FrameFault::kWrongSize:
      return "a zstd frame that does not announce the size of the chunk";
    case FrameFault::kDamaged:
      return "a damaged zstd frame";
  }
  return "unknown";
}

struct ChunkDecoder::State {
  struct Deleter {
    void operator()(ZSTD_DCtx* p) const { ZSTD_freeDCtx(p); }
  };
  std::unique_ptr<ZSTD_DCtx, Deleter> context{ZSTD_createDCtx()};
};

ChunkDecoder::ChunkDecoder(bool checksums) : state_(std::make_unique<State>()) {
  if (state_->context == nullptr) throw std::bad_alloc();
  // A library that does not know the parameter goes on comparing.
  if (!checksums) {
    ZSTD_DCtx_setParameter(state_->context.get(), ZSTD_d_forceIgnoreChecksum,
                           ZSTD_d_ignoreChecksum);
  }
}
ChunkDecoder::~ChunkDecoder() = default;
ChunkDecoder::ChunkDecoder(ChunkDecoder&&) noexcept = default;

FrameFault ChunkDecoder::decode(std::span<const std::byte> frame, std::span<std::byte> chunk) {
  constexpr size_t kDescriptor = 4;  // the byte after the magic number
  constexpr unsigned kChecksum = 4;
  if (frame.size() <= kDescriptor ||
      ZSTD_findFrameCompressedSize(frame.data(), frame.size()) != frame.size()) {
    return FrameFault::kNotOneFrame;
  }
  // A skippable frame, which has no content, ends here too: its content size is 0.
  if (ZSTD_getFrameContentSize(frame.data(), frame.size()) != chunk.size()) {
    return FrameFault::kWrongSize;
  }
  if ((std::to_integer<unsigned>(frame[kDescriptor]) & kChecksum) == 0) {
    return FrameFault::kNoChecksum;
  }
  const size_t size = ZSTD_decompressDCtx(state_->context.get(), chunk.data(), chunk.size(),
                                          frame.data(), frame.size());
  return size == chunk.size() ? FrameFault::kNone : FrameFault::kDamaged;
}

std::string zstd_version() { return ZSTD_versionString(); }

}  // namespace rlreplay::format
