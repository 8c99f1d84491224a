#include <algorithm>

#include "format/checked_image.h"
#include "format/faults.h"
#include "format/hdf5_file.h"
#include "tests/fuzz/answer.h"

/// A unit's file, whose checksums need not fit in this build.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rlreplay;
  using namespace rlreplay::format;
  const std::span<const std::byte> bytes = fuzz::bytes_of(data, size);
  Buffer<std::byte> copy(size);
  std::copy(bytes.begin(), bytes.end(), copy.data());
  const CheckedImage image(std::move(copy), size, hash_of(bytes), "unit");
  return fuzz::answer([&] {
    Faults faults("unit");
    const h5::Contents contents = h5::contents_of(image, {}, "unit", faults);
    faults.raise();
    size_t stored = 0, values = 0;
    for (const h5::DatasetEntry& entry : contents.datasets) {
      const h5::Layout& layout = entry.layout;
      const uint64_t pieces = layout.chunk > 0 ? layout.chunks() : layout.count > 0 ? 1 : 0;
      check(entry.pieces.size() == pieces, "a dataset lacks its pieces");
      for (const auto piece : entry.pieces) {
        stored += piece.size();
        for (const std::byte b : piece) values += b == std::byte{1} ? 1 : 0;
      }
    }
    check(stored <= 2 * size && values <= stored, "more stored bytes than the file has");
  });
}
