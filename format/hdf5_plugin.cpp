#include <cstdlib>
#include <new>
#include <span>

#include <H5PLextern.h>
#include <hdf5.h>

#include "format/codec.h"

/// The zstd filter (32015) for programs that read dumps through HDF5's own pipeline, as h5dump
/// does: a shared library for HDF5_PLUGIN_PATH. The programs of this project do not use it.
namespace {

using rlreplay::format::ChunkDecoder;
using rlreplay::format::ChunkEncoder;
using rlreplay::format::FrameFault;

// No exception may cross libhdf5, and it frees what malloc gave.
size_t decode(std::span<const std::byte> frame, void** buffer, size_t* capacity) {
  constexpr size_t kMaxChunk = size_t{4} << 20;  // SPEC.md, "Storage"
  const size_t size = rlreplay::format::announced_size(frame);
  if (size == 0 || size > kMaxChunk) return 0;
  void* chunk = std::malloc(size);
  if (chunk == nullptr) return 0;
  ChunkDecoder decoder;
  if (decoder.decode(frame, {static_cast<std::byte*>(chunk), size}) != FrameFault::kNone) {
    std::free(chunk);
    return 0;
  }
  std::free(*buffer);
  *buffer = chunk;
  *capacity = size;
  return size;
}

size_t encode(std::span<const std::byte> chunk, int level, void** buffer, size_t* capacity) {
  const size_t bound = rlreplay::format::frame_bound(chunk.size());
  void* frame = std::malloc(bound);
  if (frame == nullptr) return 0;
  ChunkEncoder encoder(level);
  const size_t size = encoder.encode(chunk, {static_cast<std::byte*>(frame), bound});
  std::free(*buffer);
  *buffer = frame;
  *capacity = bound;
  return size;
}

size_t filter(unsigned flags, size_t count, const unsigned* parameters, size_t bytes,
              size_t* capacity, void** buffer) {
  try {
    const std::span<const std::byte> in(static_cast<const std::byte*>(*buffer), bytes);
    if ((flags & H5Z_FLAG_REVERSE) != 0) return decode(in, buffer, capacity);
    return encode(in, count > 0 ? static_cast<int>(parameters[0]) : 1, buffer, capacity);
  } catch (...) {
    return 0;
  }
}

const H5Z_class2_t kFilter = {H5Z_CLASS_T_VERS, 32015, 1, 1, "zstd", nullptr, nullptr, filter};

}  // namespace

extern "C" {
H5PL_type_t H5PLget_plugin_type(void) { return H5PL_TYPE_FILTER; }
const void* H5PLget_plugin_info(void) { return &kFilter; }
}
