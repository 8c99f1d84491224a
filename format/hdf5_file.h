#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "format/sink.h"

namespace rlreplay::format {
class CheckedImage;
class Faults;

}  // namespace rlreplay::format

/// HDF5 files: built by libhdf5, to which no other header leads and whose filters never run, and
/// read by code of our own (format/hdf5/): whoever made a file may have chosen its bytes.
namespace rlreplay::format::h5 {

/// How an element is stored: a little-endian integer or IEEE number of 1, 2, 4 or 8 bytes.
struct Element {
  enum class Kind : uint8_t { kSigned, kUnsigned, kFloat };
  Kind kind = Kind::kUnsigned;
  size_t size = 1;
  friend bool operator==(const Element&, const Element&) = default;
};

/// The storage of a one-dimensional dataset of fixed length.
struct Layout {
  Element element;
  uint64_t count = 0;
  /// Elements of a chunk; 0 for a contiguous dataset.
  uint64_t chunk = 0;
  /// Chunks only: HDF5's shuffle before zstd (filter 32015).
  bool shuffled = false;

  uint64_t bytes() const { return count * element.size; }
  uint64_t chunks() const { return chunk == 0 ? 0 : (count + chunk - 1) / chunk; }
};

/// A text, or a list of non-negative integers.
using Attribute = std::variant<std::string, std::vector<uint64_t>>;
using Attributes = std::map<std::string, Attribute>;

/// A finished file in memory.
class Image {
 public:
  Image() = default;
  Image(MemoryBlock owned, size_t size) : data_(std::move(owned)), size_(size) {}
  std::span<const std::byte> bytes() const { return {data_.get(), size_}; }

 private:
  MemoryBlock data_;
  size_t size_ = 0;
};

/// Builds a file. Its bytes depend on the calls alone: no times, versions pinned.
class Builder {
 public:
  /// The file goes to `sink`, which must outlive the builder. `level` is recorded as the parameter
  /// of the zstd filter.
  /// Errors (also of the others): those of the sink.
  Builder(int level, Sink& sink);
  ~Builder();
  Builder(Builder&&) noexcept;

  void root_attribute(const std::string& name, const Attribute& value);
  /// Makes the dataset (and the groups on its way) that the next calls write to.
  void begin(const std::string& path, const Layout& layout, const Attributes& attributes);
  /// All bytes of a contiguous dataset.
  void write(std::span<const std::byte> bytes);
  /// One chunk, shuffled and compressed already.
  void write_chunk(uint64_t index, std::span<const std::byte> frame);
  /// Ends the file and returns its size.
  uint64_t finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// What opening a file may cost.
struct Limits {
  size_t objects = 200'000;
  size_t depth = 4;
  size_t attributes = 32;  // of one object
  size_t attribute_bytes = 64 * 1024;
  uint64_t dataset_bytes = uint64_t{1} << 36;  // decoded
  uint64_t unit_bytes = uint64_t{1} << 40;     // decoded
};

/// A dataset, and where its stored bytes lie in the image.
struct DatasetEntry {
  std::string path;      // without a slash at its front
  uint64_t address = 0;  // of its header
  Layout layout;
  Attributes attributes;
  /// Contiguous: one piece, none where it is empty. Else the stored frame of each chunk.
  std::vector<std::span<const std::byte>> pieces;
};

/// All that a file holds: the attributes of its root, and its datasets.
struct Contents {
  Attributes root;
  uint64_t root_address = 0;           // of its header
  std::vector<DatasetEntry> datasets;  // sorted by path
};

/// Looks at everything in a file and at no value, in time and memory bounded by the file's size.
/// Errors: FormatError kSignature, kContainer or kObjectLimit; other rules that are broken are
/// gathered in `faults`, and mean nothing more can be said of the contents than that.
[[nodiscard]] Contents contents_of(const CheckedImage& image, const Limits& limits,
                                   const std::string& where, Faults& faults);

}  // namespace rlreplay::format::h5
