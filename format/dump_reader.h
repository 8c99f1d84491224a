#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/hdf5_file.h"
#include "format/manifest.h"
#include "format/unit_index.h"
#include "format/unit_reader.h"

namespace rlreplay::format {

/// The largest unit that is held in memory; larger ones are read from their files.
inline constexpr uint64_t kMostHeldUnit = uint64_t{64} << 20;

/// How a dump is read: by how many threads, and up to which sizes.
struct ReaderOptions {
  int threads = 2;
  h5::Limits limits;
  /// The largest unit that is read.
  uint64_t unit_bytes = kMaxUnitBytes;
  /// Whether `read` compares zstd's checksum of each chunk too. A unit's hash says that the frames
  /// are those that were written, a dataset's hash that they gave the right bytes.
  bool frame_checksums = false;
  /// How many differences may lie between a tensor and its full copy.
  int base_depth = 16;
};

/// Reads a dump, finished or not.
class DumpReader {
 public:
  /// Checks the manifest, the index and the journals, in the order of SPEC.md; no unit is touched
  /// yet. Errors: FormatError.
  [[nodiscard]] static DumpReader open(const std::string& path, const ReaderOptions& options = {});
  ~DumpReader();
  DumpReader(DumpReader&&) noexcept;

  const ReaderOptions& options() const;
  /// Whether there is a manifest; without one the journals say what is whole.
  [[nodiscard]] bool sealed() const;
  /// Whether all writers ended the dump themselves.
  [[nodiscard]] bool complete() const;
  /// The version of the format, as `1.0`.
  const std::string& version() const;
  const std::optional<DerivedFrom>& derived_from() const;
  /// `meta`, as canonical JSON.
  const std::string& meta() const;
  /// What may differ between equal runs, as canonical JSON; `{}` where an unfinished dump says
  /// nothing sound of it.
  const std::string& unstable() const;
  /// The identity of all that the dump means; for an unfinished one, of what is whole.
  Hash root() const;
  /// What the journals of the writers are, sorted by writer; of an unfinished dump, without hashes.
  const std::vector<JournalEntry>& journals() const;
  /// Leaves out, from here on, what `wanted` does not name of the groups of units; a unit without
  /// any is not opened, unless another is stored as a difference from it.
  void keep(const std::function<bool(std::string_view kind, const std::string& group)>& wanted);
  /// All units that are not left out, sorted by path.
  const UnitList& units() const;
  /// The unit of a path; null where there is none or it was left out.
  [[nodiscard]] const UnitRecord* find(std::string_view path) const;
  /// The units of a kind that hold a group: all ranks of `train`, `0-3`, in the order of ranks.
  [[nodiscard]] std::vector<const UnitRecord*> find(std::string_view kind,
                                                    std::string_view group) const;

  /// Checks that a unit's file is there and has its size.
  /// Errors: FormatError, from kUnitLimit to kUnitSize.
  void check_there(const UnitRecord& unit) const;

  /// Checks the stored bytes of a unit, and nothing of what is in them.
  /// Errors: FormatError, from kUnitLimit to kUnitHash.
  void check_unit(const UnitRecord& unit) const;

  /// Opens a unit. The few that were opened last are not read again. `most_held`: of its bytes, as
  /// of CheckedImage.
  /// Errors: FormatError, from kUnitLimit to kContent.
  UnitReader open_unit(const UnitRecord& unit, uint64_t most_held = kMostHeldUnit) const;

  /// A whole dataset, decoded and checked, its bases too. Of a unit with many differences a
  /// ChainReader reads all without opening their bases again for each.
  Buffer<std::byte> read(const UnitReader& unit, const StoredDataset& dataset) const;

  /// The decoded base of a dataset that is stored as a difference.
  [[nodiscard]] Buffer<std::byte> read_base(const UnitReader& unit,
                                            const StoredDataset& dataset) const;

 private:
  struct State;
  explicit DumpReader(std::unique_ptr<State> state);
  /// Opens a unit's file, which has the size that its record names, for `use`.
  template <class Use>
  auto with_file(const UnitRecord& unit, Use use) const;
  std::unique_ptr<State> state_;
};

}  // namespace rlreplay::format
