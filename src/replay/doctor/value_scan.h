#pragma once

#include <functional>
#include <optional>

#include "format/foreign/float_values.h"
#include "format/foreign/safetensors_file.h"

namespace rlreplay::replay {

/// What going through all elements of a tensor shows.
struct ValueScan {
  bool constant = true;                         // all elements have the bits of the first
  std::optional<foreign::NonFinite> nonfinite;  // the first, of numbers with a fraction
};

/// Whether elements of the type have fractions, so that NaNs and constants say something.
[[nodiscard]] bool is_floating(DType dtype);

/// Goes through `data`, elements of `dtype`, from the file `file`; what was read leaves memory.
/// `read`: called with the bytes read since the last call.
[[nodiscard]] ValueScan scan_values(const foreign::MappedFile& file, DType dtype,
                                    foreign::Bytes data, const std::function<void(size_t)>& read);

/// Whether both have the same bytes; what was read leaves memory.
[[nodiscard]] bool same_bytes(const foreign::MappedFile& file, foreign::Bytes data,
                              const foreign::MappedFile& other, foreign::Bytes other_data);

/// An element for people: "0", "0.02", "NaN".
[[nodiscard]] std::string element_text(DType dtype, foreign::Bytes data, size_t index);

}  // namespace rlreplay::replay
