#include <algorithm>
#include <numeric>
#include <utility>

#include "format/group_name.h"
#include "format/unit_index_rows.h"
#include "src/base/json_value.h"
#include "src/base/printable.h"

namespace rlreplay::format {

UnitIndex UnitIndex::parse(Buffer<std::byte> bytes) {
  UnitIndex index(std::move(bytes));
  index.check_header();
  const std::optional<FormatError> later = index.check_units();
  index.check_groups();
  index.check_order();
  if (later) throw FormatError(*later);
  return index;
}

void UnitIndex::check_header() {
  if (bytes_.size() < kHeaderBytes)
    throw malformed_index("the index has no whole header", bytes_.size());
  const auto header = load_as<IndexHeader>(bytes_.data());
  if (header.magic != kIndexMagic) throw malformed_index("the index does not begin as one", 0);
  if (header.version != kIndexVersion) {
    throw malformed_index("the index is of version " + std::to_string(header.version) +
                              ", expected " + std::to_string(kIndexVersion),
                          8);
  }
  if (header.zero != 0 || header.reserved != std::array<uint64_t, 2>{}) {
    throw malformed_index("reserved bytes of the index are set, expected zeros", 8);
  }
  if (header.units > kMaxUnits) {
    throw FormatError(Rule::kUnitCount,
                      std::to_string(header.units) + " units, and a dump may have at most " +
                          std::to_string(kMaxUnits),
                      kIndexName, {}, 16);
  }
  // No sum of these can overflow once each is below the size of the file.
  const uint64_t most = std::min<uint64_t>(bytes_.size(), kMaxIndexBytes);
  for (const uint64_t part : {header.groups, header.strings, header.counts}) {
    if (part > most) throw malformed_index("the index is smaller than its header says", 16);
  }
  const uint64_t expected = kHeaderBytes + kUnitBytes * header.units +
                            (kGroupBytes + kOrderBytes) * header.groups + header.strings +
                            header.counts;
  if (expected != bytes_.size()) {
    throw malformed_index("the index has " + std::to_string(bytes_.size()) +
                              " bytes, and its header " + "counts " + std::to_string(expected),
                          16);
  }
  units_ = header.units;
  groups_ = header.groups;
  strings_ = header.strings;
  counts_ = header.counts;
  const std::array<uint64_t, 4> sizes = {kUnitBytes * units_, kGroupBytes * groups_,
                                         kOrderBytes * groups_, strings_};
  areas_[0] = kHeaderBytes;
  std::partial_sum(sizes.begin(), sizes.end(), areas_.begin() + 1);
  for (size_t i = 1; i < areas_.size(); ++i) areas_[i] += kHeaderBytes;
}

/// The paths lie one behind the other in the order of the units, ascending; so do their groups.
std::optional<FormatError> UnitIndex::check_units() const {
  uint64_t path_at = 0, first_group = 0;
  std::string_view before;
  std::optional<FormatError> later;  // of a rule that is checked behind the form
  for (size_t row = 0; row < units_; ++row) {
    const Unit unit = this->unit(row);
    const uint64_t at = kHeaderBytes + kUnitBytes * row;
    if (unit.path_at != path_at || unit.path_length > strings_ - path_at) {
      throw malformed_index("the paths of units do not follow one another", at);
    }
    if (unit.first_group != first_group || unit.group_count > groups_ - first_group) {
      throw malformed_index("the groups of units do not follow one another", at);
    }
    if (unit.size > kMostUnitSize || unit.logical > kMostUnitSize) {
      throw malformed_index("a unit has " + std::to_string(std::max(unit.size, unit.logical)) +
                                " bytes, at most 2^50",
                            at);
    }
    path_at += unit.path_length;
    first_group += unit.group_count;
    const std::string_view path = text(unit.path_at, unit.path_length);
    if (path < before) {
      throw malformed_index("the unit " + printable(path) + " stands behind " + printable(before) +
                                ", expected in order",
                            at);
    }
    const auto keep = [&](Rule rule, const std::string& what) {
      if (!later || rule < later->rule()) later.emplace(rule, what, kIndexName, "", at);
    };
    if (!sound_unit_path(path)) {
      keep(Rule::kUnitPath,
           "the path of a unit lies outside the grammar: \"" + std::string(path) + "\"");
    }
    if (path == before && row > 0) {
      keep(Rule::kDuplicate, "the unit " + std::string(path) + " is recorded twice");
    }
    before = path;
  }
  if (first_group != groups_) {
    throw malformed_index("a group is no unit's", kHeaderBytes + kUnitBytes * units_);
  }
  return later;
}

/// The names lie behind the paths, one behind the other, and so do the counts.
void UnitIndex::check_groups() const {
  uint64_t name_at = 0, counts_at = 0;
  for (size_t row = 0; row < units_; ++row) name_at += unit(row).path_length;
  for (size_t row = 0, entry = 0; row < units_; ++row) {
    const std::string_view kind = kind_of(path(row));
    for (const uint64_t end = entry + unit(row).group_count; entry < end; ++entry) {
      const Group group = this->group(entry);
      const uint64_t at = kHeaderBytes + kUnitBytes * units_ + kGroupBytes * entry;
      if (group.name_at != name_at || group.name_length > strings_ - name_at ||
          group.counts_at != counts_at || group.counts_length > counts_ - counts_at) {
        throw malformed_index("the names or counts of groups do not follow one another", at);
      }
      const bool content = (group.flags & kHasContent) != 0, counts = group.counts_length > 0;
      if (group.unit != row || group.zero != 0 ||
          (group.flags & ~(kHasContent | kHasCounts)) != 0 ||
          counts != ((group.flags & kHasCounts) != 0) ||
          (!content && group.content != StoredHash{})) {
        throw malformed_index(
            "a group is not of its unit, or its flags are not those of what it has", at);
      }
      const std::string name(text(group.name_at, group.name_length));
      if (!sound_group_name(kind, name)) {
        throw malformed_index(
            "the group " + json_quoted(name) + " of a unit is not named as those of its kind", at);
      }
      name_at += group.name_length;
      counts_at += group.counts_length;
    }
  }
  if (name_at != strings_ || counts_at != counts_) {
    throw malformed_index("there are strings or counts that nothing has", bytes_.size());
  }
}

/// All groups, sorted by kind, name, rank and unit.
void UnitIndex::check_order() const {
  std::optional<GroupKey> before;
  for (size_t place = 0; place < groups_; ++place) {
    const uint64_t at =
        kHeaderBytes + kUnitBytes * units_ + kGroupBytes * groups_ + kOrderBytes * place;
    const size_t entry = ordered(place);
    if (entry >= groups_) throw malformed_index("the order names a group that is not there", at);
    const Group group = this->group(entry);
    const std::string_view path = this->path(static_cast<size_t>(group.unit));
    const GroupKey key{kind_of(path), text(group.name_at, group.name_length), rank_of(path),
                       group.unit, entry};
    if (before && !(*before < key)) throw malformed_index("the groups are not in their order", at);
    before = key;
  }
}

}  // namespace rlreplay::format
