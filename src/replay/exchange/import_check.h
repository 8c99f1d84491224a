#pragma once

#include "format/foreign/torch_file.h"

namespace rlreplay::replay {

/// What no import of the file alone gets past. Errors: those of the import, naming the file.
void check_importable(foreign::TorchFile& file);

}  // namespace rlreplay::replay
