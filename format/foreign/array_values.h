#pragma once

#include <span>

#include "format/foreign/tree.h"

namespace rlreplay::foreign {

/// numpy.dtype(code, align, copy). Errors: kUnsupported for objects, structures and dates.
[[nodiscard]] Value make_array_dtype(Tree& tree, std::span<const Value> args);

/// Gives a dtype the byte order and size of its pickled state.
void set_array_dtype_state(Tree& tree, Value dtype, Value state);

/// numpy's _reconstruct: an array that its state will fill.
[[nodiscard]] Value make_empty_array(Tree& tree, std::span<const Value> args);

/// Fills an array from its pickled state (version, shape, dtype, fortran, bytes). As numpy does,
/// the elements become little-endian. Errors: kCorrupt where the bytes do not fit the shape.
void set_array_state(Tree& tree, Value array, Value state);

/// numpy's _frombuffer(bytes, dtype, shape, order); the byte order stays.
[[nodiscard]] Value make_array_from_buffer(Tree& tree, std::span<const Value> args);

/// A numpy scalar of (dtype, bytes), little-endian.
[[nodiscard]] Value make_array_scalar(Tree& tree, std::span<const Value> args);

}  // namespace rlreplay::foreign
