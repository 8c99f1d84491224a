#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "format/hdf5_file.h"
#include "src/base/dtype.h"
#include "src/base/hash.h"

namespace rlreplay::format {

/// The tensor that a stored difference refers to: the dataset of the same path in another unit.
struct Base {
  std::string unit;
  Hash hash;
};

/// A tensor to be stored.
struct Dataset {
  /// Below the unit's root: the group, then names, as `0-3/events/digest`.
  std::string path;
  DType dtype = DType::kU8;
  /// 1 to 8 dimensions; a scalar is [1].
  std::vector<uint64_t> shape;
  /// Row-major, little-endian, exactly as many as dtype and shape say.
  std::span<const std::byte> bytes;
  /// Keeps `bytes` alive; null when the caller does.
  std::shared_ptr<const void> owner;
  /// What else belongs to the content: `columns` (names, one a line), `boxes` and `tensors` of
  /// what holds parts (format/boxes.h).
  h5::Attributes attributes;
  /// Store the difference to this tensor, whose bytes are `base_bytes`, instead.
  std::optional<Base> base;
  std::span<const std::byte> base_bytes;
  std::shared_ptr<const void> base_owner;
  /// The hash of `bytes` where the caller has it: they are not hashed again.
  std::optional<Hash> known_hash = {};

  Hash hash() const { return known_hash ? *known_hash : hash_of(bytes); }
};

/// A dataset that owns its values.
template <class T>
[[nodiscard]] Dataset dataset_of(std::string path, DType dtype, std::vector<uint64_t> shape,
                                 std::vector<T> values) {
  auto owner = std::make_shared<const std::vector<T>>(std::move(values));
  return {std::move(path), dtype, std::move(shape), std::as_bytes(std::span<const T>(*owner)),
          owner,           {},    std::nullopt,     {},
          nullptr};
}

/// "16,64", as contents name numbers: part of what is hashed.
[[nodiscard]] std::string comma_list(std::span<const uint64_t> numbers);

/// "[16, 64]", for people.
[[nodiscard]] std::string shape_text(std::span<const uint64_t> shape);

/// A dataset as a unit holds it.
struct StoredDataset {
  std::string path;  // GROUP/NAME
  DType dtype = DType::kU8;
  std::vector<uint64_t> shape;
  /// The hash of the decoded bytes.
  Hash hash;
  /// Set when a difference is stored.
  std::optional<Base> base;
  /// The attributes that belong to the content.
  h5::Attributes attributes;
  uint64_t bytes = 0;

  std::string_view name() const { return std::string_view(path).substr(path.find('/') + 1); }
};

/// The hash of a unit's content: paths, dtypes, shapes, attributes and hashes of its datasets, and
/// nothing of how they are stored.
[[nodiscard]] Hash content_of(std::vector<StoredDataset> datasets);

/// The number of elements, or nothing when the shape is outside 1 to 8 dimensions or overflows.
[[nodiscard]] std::optional<uint64_t> elements_of(std::span<const uint64_t> shape);

/// How HDF5 stores a dtype: integers, f32 and f64 as what they are, all else (bool, f16, bf16, f8)
/// as unsigned integers of its bits.
[[nodiscard]] h5::Element element_of(DType dtype);

/// Whether the path of a dataset follows the grammar: 2 to 4 names joined by slashes.
[[nodiscard]] bool sound_dataset_path(std::string_view path);

/// A name of any bytes as a link name: bytes outside [A-Za-z0-9._-] become %XX.
[[nodiscard]] std::string link_name(std::string_view name);

}  // namespace rlreplay::format
