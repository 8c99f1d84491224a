#pragma once

#include <string>
#include <string_view>

#include "format/foreign/dump_check.h"

namespace rlreplay::foreign {

enum class Framework { kUnknown, kSlime, kMiles, kRelax };

std::string_view to_string(Framework framework);

/// Who wrote a dump, judged by its content: no framework but slime's newest writes a version.
struct DumpIdentity {
  Framework framework = Framework::kUnknown;
  DumpKind kind = DumpKind::kNone;
  std::string layout;  // in words: "slime, one file a rollout (format_version 2)"
};

DumpIdentity identify_dump(const Tree& tree, Value root);

}  // namespace rlreplay::foreign
