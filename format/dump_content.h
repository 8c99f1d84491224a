#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "format/dump_reader.h"
#include "format/group_content.h"
#include "format/held_bytes.h"

namespace rlreplay::format {

/// Larger datasets are decoded piece by piece where their values need not be held at once.
inline constexpr uint64_t kPieceByPiece = uint64_t{16} << 20;

/// Reads a plain dataset and adds it to the content of its group; `seen` is given its bytes, in
/// pieces. Errors: FormatError kDataLimit, kFrame or kDatasetHash.
void add_plain(const UnitReader& unit, const StoredDataset& dataset, GroupContent& content,
               const std::function<void(std::span<const std::byte>)>& seen = {});

/// Decodes all of a unit, and holds no plain dataset of it but one that is small.
/// Errors: as above, kParent.
void check_values(const DumpReader& dump, const UnitReader& unit);

/// A table that says where the samples of others lie. Errors: as above.
[[nodiscard]] std::vector<std::byte> read_table(const DumpReader& dump, const UnitReader& unit,
                                                const std::string& path);

/// The datasets of a unit's group, for GroupContent.
[[nodiscard]] std::vector<GroupDataset> datasets_of(const UnitReader& unit, std::string_view group);

/// Counts what GroupContent holds of a unit's group; all three outlive it.
[[nodiscard]] GroupContent::Hold hold_for(const UnitReader& unit, std::string_view group,
                                          HeldBytes& held);

/// What one unit says of a group, decoded; what is held of it is drawn on `held`.
/// Errors: FormatError where it is not sound; kDataLimit.
[[nodiscard]] GroupItems read_items(const DumpReader& dump, const UnitReader& unit,
                                    const std::string& group, HeldBytes& held);

/// Reads the datasets of units that hold parts of what a group says. What was decoded last stays.
class GroupParts {
 public:
  /// The unit of a number, among those of the group.
  using Unit = std::function<const UnitReader&(size_t number)>;

  GroupParts(const DumpReader& dump, std::string group, Unit unit)
      : dump_(dump), group_(std::move(group)), unit_(std::move(unit)) {}

  /// Outlived by this. Errors of its calls: FormatError.
  PartSource source();

 private:
  std::span<const std::byte> read(size_t unit, const std::string& dataset);

  const DumpReader& dump_;
  std::string group_;
  Unit unit_;
  std::map<std::pair<size_t, std::string>, Buffer<std::byte>> decoded_;
  uint64_t bytes_ = 0;  // of these
};

/// Opens the units of a group when they are asked for, and closes some where many are open.
[[nodiscard]] GroupParts::Unit opened_units(const DumpReader& dump,
                                            std::vector<const UnitRecord*> units);

/// The hash of each field of a group, over all units that hold it, decoded.
[[nodiscard]] std::map<std::string, Hash> read_fields(const DumpReader& dump, std::string_view kind,
                                                      const std::string& group);

/// Whether units, in their order, are recorded as holding the same.
[[nodiscard]] bool same_content(std::span<const UnitRecord* const> a,
                                std::span<const UnitRecord* const> b);

/// The hash of each group, by kind and name: the recorded one where a single unit holds the group
/// and says so, else computed, each unit being opened once.
[[nodiscard]] std::map<std::pair<std::string, std::string>, Hash> group_contents(
    const DumpReader& dump);

/// Kinds and names of all groups that are part of the content, sorted.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> content_groups(
    const DumpReader& dump);

}  // namespace rlreplay::format
