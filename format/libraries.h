#pragma once

#include <string>

namespace rlreplay::format {

/// The versions of the libraries that read and write units, as they are loaded: `1.10.8`.
[[nodiscard]] std::string hdf5_version();
[[nodiscard]] std::string zstd_version();

}  // namespace rlreplay::format
