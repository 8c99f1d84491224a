#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "format/hdf5_file.h"
#include "src/base/hash.h"

namespace rlreplay::format {

inline constexpr char kFormat[] = "rlreplay";

/// The version of the format that is written.
extern const int kMajor, kMinor;

/// The version that had one writer, whose journal lay beside the manifest.
inline constexpr char kOldVersion[] = "0.1";

/// The largest unit: readers take no more into memory.
inline constexpr uint64_t kMaxUnitBytes = uint64_t{16} << 30;

/// What a journal's line and the index say of one immutable file.
struct UnitRecord {
  std::string path;                 // below the dump, as `train/0-3/rank0.h5`
  uint64_t size = 0;                // stored bytes
  uint64_t logical = 0;             // bytes of all datasets, decoded
  Hash hash;                        // of the stored bytes
  Hash content;                     // of what they mean
  std::vector<std::string> groups;  // rollouts or steps in it, sorted
  /// The hash of what each group says (SPEC.md section 7); none where no writer computed it.
  std::map<std::string, Hash> group_contents = {};
  /// How many things of which kind each group holds: canonical JSON (SPEC.md section 2).
  std::map<std::string, std::string> counts = {};

  friend bool operator==(const UnitRecord&, const UnitRecord&) = default;
};

/// A unit ready to be written.
struct EncodedUnit {
  UnitRecord record;
  h5::Image image;
};

/// Whether a name in a path follows the grammar: 1 to 100 bytes of [A-Za-z0-9._-], no dot in front.
[[nodiscard]] bool sound_name(std::string_view name);

/// Whether a unit's path follows the grammar: KIND/NAME.h5 or KIND/NAME/NAME.h5, where KIND is
/// rollout, train, weights or x-VENDOR.
[[nodiscard]] bool sound_unit_path(std::string_view path);

/// The version that is written: `1.0`.
[[nodiscard]] std::string this_version();

/// Whether a version that a unit names can be read.
[[nodiscard]] bool sound_version(std::string_view version);

/// The first name of a unit's path.
[[nodiscard]] std::string_view kind_of(std::string_view unit_path);

/// The rank of `.../rank<r>.h5` and of its parts, `.../rank<r>-part<n>.h5`, r and n in decimal
/// digits as they are printed; of any other path 0.
[[nodiscard]] int64_t rank_of(std::string_view unit_path);

/// Whether a unit is such a part: what a rank says is there once `rank<r>.h5` is.
[[nodiscard]] bool is_part(std::string_view unit_path);

}  // namespace rlreplay::format
