#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "format/foreign/dump_check.h"

namespace rlreplay::foreign {

/// Who writes dumps that can be read; kUnknown: of a file that is none of their dumps.
enum class Framework { kSlime, kMiles, kRelax, kUnknown };

/// What commands and dumps call them, in that order.
inline constexpr std::array<std::string_view, 4> kFrameworkNames = {"slime", "miles", "relax",
                                                                    "unknown"};

/// The names of the frameworks alone, without "unknown".
inline constexpr auto kFrameworks = std::span(kFrameworkNames).first<3>();

/// The names of those frameworks whose launchers (--wrap) and formulas (--dialect) are known.
inline constexpr auto kDialects = kFrameworks.first<2>();

[[nodiscard]] constexpr std::string_view to_string(Framework framework) {
  return kFrameworkNames[static_cast<size_t>(framework)];
}

/// Who wrote a dump, judged by its content: no framework but slime's newest writes a version.
struct DumpIdentity {
  Framework framework = Framework::kUnknown;
  DumpKind kind = DumpKind::kNone;
  std::string layout;  // in words: "slime, one file a rollout (format_version 2)"
};

/// Judges the object at `root`. Of DumpKind::kNone the framework is kUnknown and `layout` empty.
[[nodiscard]] DumpIdentity identify_dump(const Tree& tree, Value root);

}  // namespace rlreplay::foreign
