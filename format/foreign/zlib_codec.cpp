#include "format/foreign/zlib_codec.h"

#include <algorithm>
#include <climits>

#include <zlib.h>

#include "src/base/found_text.h"

namespace rlreplay::foreign {
namespace {

/// One inflating zlib stream.
class Inflater {
 public:
  Inflater() {
    if (inflateInit2(&stream_, -MAX_WBITS) != Z_OK) {
      throw Error(ErrorCode::kEnvironment, "no memory to inflate a member");
    }
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream_); }
  z_stream& stream() { return stream_; }

 private:
  z_stream stream_{};
};

constexpr size_t kPiece = size_t{1} << 30;  // zlib counts in 32 bits

}  // namespace

uint32_t crc32(Bytes bytes, uint32_t before) {
  return static_cast<uint32_t>(::crc32_z(before, bytes.data(), bytes.size()));
}

void inflate_exactly(Bytes deflated, std::span<uint8_t> out) {
  Inflater inflater;
  z_stream& stream = inflater.stream();
  uint8_t beyond = 0;
  size_t read = 0;
  size_t written = 0;
  int status = Z_OK;
  while (status == Z_OK) {
    const size_t in_piece = std::min(kPiece, deflated.size() - read);
    const bool full = written == out.size();
    const size_t out_piece = full ? 1 : std::min(kPiece, out.size() - written);
    stream.next_in = const_cast<uint8_t*>(deflated.data() + read);
    stream.avail_in = static_cast<uInt>(in_piece);
    stream.next_out = full ? &beyond : out.data() + written;
    stream.avail_out = static_cast<uInt>(out_piece);
    status = ::inflate(&stream, Z_NO_FLUSH);
    read += in_piece - stream.avail_in;
    if (full && stream.avail_out == 0) {
      throw Error(ErrorCode::kCorrupt, "a deflated member holds more bytes than it declares, " +
                                           std::to_string(out.size()));
    }
    if (!full) written += out_piece - stream.avail_out;
  }
  if (status != Z_STREAM_END || written != out.size() || read != deflated.size()) {
    throw Error(ErrorCode::kCorrupt,
                found_text("a deflated member is broken or does not have the size that it declares",
                           written, out.size()));
  }
}

}  // namespace rlreplay::foreign
