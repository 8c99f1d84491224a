#pragma once

#include <memory>
#include <string>

#include "src/base/temporary_folder.h"

namespace rlreplay::gate {

/// The dump that a run left, for as long as somebody holds it.
struct LeftDump {
  std::string path = {};  // empty: it left none
  std::shared_ptr<const TemporaryFolder> folder = {};
};

}  // namespace rlreplay::gate
