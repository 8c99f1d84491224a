#include "src/base/build_info.h"

namespace rlreplay {

std::string program_version() { return RLREPLAY_VERSION; }

std::string program_version_line() {
  const std::string revision = kRevision;
  return program_version() + " (" + revision.substr(0, 12) + (kModified ? ", modified)" : ")");
}

std::string compiler() { return RLREPLAY_COMPILER; }

}  // namespace rlreplay
