#pragma once

#include <functional>
#include <string_view>

#include "format/foreign/tree.h"

namespace rlreplay::foreign {

/// Takes the next piece of a text.
using TextSink = std::function<void(std::string_view)>;

/// Writes a value as JSON without loss. What JSON knows is itself (None, bools, integers of 64
/// bits, texts, lists, dicts with text keys, in their order); all else is an object with one key
/// that begins with "$":
///
/// | key                                    | value                                              |
/// |----------------------------------------|----------------------------------------------------|
/// | $f                                     | a float's 64 bits in hex                           |
/// | $fl                                    | a non-empty list of floats, each as in $f          |
/// | $int                                   | an integer beyond 64 bits, decimal                 |
/// | $wtf8                                  | a text with surrogates, its bytes in hex           |
/// | $bytes, $bytearray                     | hex                                                |
/// | $tuple, $set, $frozenset               | items (of sets sorted by their JSON)               |
/// | $dict                                  | [key, value] pairs, where a key is no plain text   |
/// | $tensor                                | dtype, shape, place in its storage, hex of content |
/// | $ndarray, $npscalar, $np.dtype         | numpy                                              |
/// | $object                                | class and state, or items of an OrderedDict        |
/// | $enum, $global, $range, $slice,        | as named                                           |
/// | $complex, $torch.Size, $torch.device,  |                                                    |
/// | $torch.dtype                           |                                                    |
void write_canonical_json(const Tree& tree, Value root, const TextSink& sink);

/// A text as a JSON string in ASCII. Surrogates are not allowed.
void append_json_string(std::string& out, std::string_view text);

}  // namespace rlreplay::foreign
