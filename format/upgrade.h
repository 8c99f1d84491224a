#pragma once

#include <cstdint>
#include <string>

#include "src/base/hash.h"

namespace rlreplay::format {

/// What an upgrade has written.
struct UpgradeReport {
  std::string from;  // the version that the dump had
  std::string to;    // this program's
  uint64_t units = 0;
  Hash root;  // of both
};

/// Writes a sealed dump of an older version as a dump of this one, into a folder that is absent or
/// empty: units are encoded again, what they mean stays the same. Every value is checked before,
/// and contents and root are compared afterwards. `replace`: another dump that is there gives way.
/// Errors: kUsage when the dump is of this version already or not sealed, or `to` leads to it;
/// FormatError as in reading.
[[nodiscard]] UpgradeReport upgrade(const std::string& from, const std::string& to, int threads,
                                    bool replace = false);

/// Upgrades a dump in place: the new one takes the old one's name in one step. Where `path` is a
/// link, the folder that it leads to is replaced.
/// Errors: as above; kUsage also when the folder holds files that are none of the dump's.
[[nodiscard]] UpgradeReport upgrade_in_place(const std::string& path, int threads);

}  // namespace rlreplay::format
