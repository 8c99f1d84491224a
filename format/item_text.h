#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/hdf5_file.h"
#include "src/base/dtype.h"
#include "src/base/hash.h"

/// The texts that a content root is a hash of (SPEC.md section 7): the same for the same values,
/// however they are stored.
namespace rlreplay::format {

/// "TYPE HASH" of elements; `known` is their hash where the caller has it.
[[nodiscard]] std::string elements_text(DType dtype, std::span<const std::byte> bytes,
                                        const std::optional<Hash>& known);

/// Hands out the elements, a piece of whole ones after the other; each call is all of them again.
using ElementPieces =
    std::function<void(const std::function<void(std::span<const std::byte> piece)>& use)>;

/// The same of elements that are not held at once; `known` is their hash.
[[nodiscard]] std::string elements_text(DType dtype, const ElementPieces& pieces,
                                        const Hash& known);

/// " NAME=VALUE" for each attribute that is part of the content.
[[nodiscard]] std::string attributes_text(const h5::Attributes& attributes);

/// The hash of the line "KEY TEXT", where `text` ends with a line feed.
[[nodiscard]] Hash hash_of_item(std::string_view key, const std::string& text);

/// The lines of a text, of which the last has no line feed; of none one that is empty.
[[nodiscard]] std::vector<std::string> lines_of(const std::string& text);

}  // namespace rlreplay::format
