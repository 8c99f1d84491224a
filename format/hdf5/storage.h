#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "format/hdf5/object_header.h"
#include "format/hdf5_file.h"

namespace rlreplay::format::h5 {

/// Where a dataset's bytes lie, as its layout message says.
/// Source: HDF5 File Format Specification, version 3, "The Data Layout Message", version 4,
/// and "Fixed Array Index".
struct Storage {
  enum class Kind : uint8_t { kContiguous, kSingleChunk, kFixedArray };
  Kind kind = Kind::kContiguous;
  uint64_t address = kNowhere;  // of the bytes, the chunk, or the index of chunks
  uint64_t size = 0;            // stored bytes of what is contiguous or a single chunk
  uint64_t mask = 0;            // a single chunk's filters that were left out
  uint64_t chunk = 0;           // elements
};

/// Nothing for a layout outside of the list, or chunks of another size than the element's.
/// Errors (also of the others): FormatError kContainer.
[[nodiscard]] std::optional<Storage> storage_of(Bytes layout, const Element& element,
                                                const File& file);

/// That a fill value is of the form that is written; it is never needed.
void check_fill(Bytes fill, const File& file);

/// Whether chunks are shuffled before zstd; nothing for other filters.
[[nodiscard]] std::optional<bool> shuffled_by(Bytes filters, const Element& element,
                                              const File& file);

/// The stored chunks of a dataset in their order.
struct Chunks {
  std::vector<Bytes> pieces;
  std::string fault;  // the first one that is absent, outside of the file or not filtered; or empty
};
[[nodiscard]] Chunks chunks_of(File& file, const Storage& storage, const Layout& layout);

}  // namespace rlreplay::format::h5
