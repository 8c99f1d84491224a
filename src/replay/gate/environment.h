#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/base/golden_file.h"
#include "src/replay/launch/provenance.h"

namespace rlreplay::gate {

/// What may change a run's bits and is no code of the project: processor, instructions, C library,
/// and libtorch where it computes. RLREPLAY_GOLDEN_ENVIRONMENT adds what only the user knows:
/// `driver=550.54 image=trainer:7`.
/// Errors: kUsage for a variable of another form.
[[nodiscard]] GoldenEntries environment_now(const replay::Computing& computing);

/// The classes of this machine, the narrowest first, `any` last. Golden files of a narrower class
/// come before those of a wider one. RLREPLAY_GOLDEN_CLASSES, `h100 sm90`, stands before the
/// machine's own: its instructions and its architecture.
/// Errors: kUsage for a name that no file's could hold.
[[nodiscard]] std::vector<std::string> classes_now(const replay::Computing& computing);

/// The class of values that hold wherever the contract of the bits does.
inline constexpr const char* kAnyClass = "any";

/// Sees that a name can be a class's. Errors: kUsage unless it consists of lower-case letters,
/// digits, `.`, `_` and `-`.
void check_class(std::string_view name);

/// What differs of an environment or of inputs, a line each, as
/// `processor: RECORDED recorded, NOW now`.
[[nodiscard]] std::vector<std::string> environment_difference(const GoldenEntries& recorded,
                                                              const GoldenEntries& now);

}  // namespace rlreplay::gate
