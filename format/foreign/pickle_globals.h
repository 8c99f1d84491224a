#pragma once

#include <string_view>

#include "format/foreign/tree.h"

namespace rlreplay::foreign {

/// The global `module`.`name` of a pickle, if it is one of the known ones. Nothing is imported and
/// nothing is run: a global is a label that says how the data around it is to be read.
/// Errors: kUnsupported for data of torch that this reader cannot represent, kUnsafe for all else.
[[nodiscard]] Global find_global(std::string_view module, std::string_view name);

/// The attribute of a known class (`Sample.SpecInfo`). Errors: as find_global.
[[nodiscard]] Global find_attribute(const Global& owner, std::string_view name);

}  // namespace rlreplay::foreign
