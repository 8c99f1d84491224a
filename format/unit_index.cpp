#include "format/unit_index.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>
#include <tuple>
#include <utility>

#include "format/group_name.h"
#include "format/rule.h"
#include "src/base/json_value.h"
#include "src/base/printable.h"

namespace rlreplay::format {
namespace {

static_assert(std::endian::native == std::endian::little, "the index is read as it is stored");

constexpr std::array<char, 8> kMagic = {'r', 'l', 'i', 'n', 'd', 'e', 'x', '\n'};
constexpr uint32_t kIndexVersion = 1;
constexpr uint64_t kMostBytes = uint64_t{1} << 50;  // of a unit
constexpr uint32_t kHasContent = 1, kHasCounts = 2;

struct Header {
  std::array<char, 8> magic = kMagic;
  uint32_t version = kIndexVersion, zero = 0;
  uint64_t units = 0, groups = 0, strings = 0, counts = 0;
  std::array<uint64_t, 2> reserved = {};
};

/// The high half first, as it is printed.
using StoredHash = std::array<uint8_t, 16>;

StoredHash stored(const Hash& hash) {
  StoredHash out;
  for (size_t i = 0; i < 8; ++i) {
    out[i] = static_cast<uint8_t>(hash.high >> (56 - 8 * i));
    out[8 + i] = static_cast<uint8_t>(hash.low >> (56 - 8 * i));
  }
  return out;
}

Hash hash_from(const StoredHash& bytes) {
  Hash hash;
  for (size_t i = 0; i < 8; ++i) {
    hash.high = hash.high << 8 | bytes[i];
    hash.low = hash.low << 8 | bytes[8 + i];
  }
  return hash;
}

}  // namespace

struct UnitIndex::Unit {
  uint64_t path_at = 0;
  uint32_t path_length = 0, group_count = 0;
  uint64_t first_group = 0, size = 0, logical = 0;
  StoredHash hash = {}, content = {};
};

struct UnitIndex::Group {
  uint64_t name_at = 0;
  uint32_t name_length = 0, flags = 0;
  uint64_t unit = 0;
  StoredHash content = {};
  uint64_t counts_at = 0;
  uint32_t counts_length = 0, zero = 0;
};

namespace {

constexpr uint64_t kHeaderBytes = 64, kUnitBytes = 72, kGroupBytes = 56, kOrderBytes = 8;
static_assert(sizeof(Header) == kHeaderBytes);

template <class T>
T load_as(const std::byte* from) {
  T out;
  std::memcpy(&out, from, sizeof out);
  return out;
}

FormatError malformed(const std::string& what, uint64_t at) {
  return {Rule::kIndexForm, what, kIndexName, {}, at};
}

/// Writes what lies in an index one after the other.
class Out {
 public:
  explicit Out(std::byte* at) : at_(at) {}

  void put(const void* from, size_t size) {
    if (size > 0) std::memcpy(at_, from, size);
    at_ += size;
  }
  template <class T>
  void put(const T& value) {
    put(&value, sizeof value);
  }

 private:
  std::byte* at_;
};

/// A group of a unit, by which units are found.
struct Key {
  std::string_view kind, group;
  int64_t rank;
  uint64_t unit, entry;

  friend auto operator<=>(const Key&, const Key&) = default;
};

std::string_view counts_of(const UnitRecord& unit, const std::string& group) {
  const auto found = unit.counts.find(group);
  return found == unit.counts.end() ? std::string_view() : found->second;
}

}  // namespace

uint64_t index_bytes(const UnitRecord& unit) {
  uint64_t bytes = kUnitBytes + unit.path.size();
  for (const std::string& group : unit.groups) {
    bytes += kGroupBytes + kOrderBytes + group.size() + counts_of(unit, group).size();
  }
  return bytes;
}

Buffer<std::byte> UnitIndex::encode(std::span<const UnitRecord* const> sorted) {
  // Sizes first: an index of a million units is not to be moved while it grows.
  Header header;
  header.units = sorted.size();
  uint64_t bytes = kHeaderBytes, paths = 0;
  for (const UnitRecord* of : sorted) {
    const UnitRecord& unit = *of;
    bytes += index_bytes(unit);
    paths += unit.path.size();
    header.groups += unit.groups.size();
    for (const std::string& group : unit.groups) {
      header.strings += group.size();
      header.counts += counts_of(unit, group).size();
    }
  }
  header.strings += paths;
  Buffer<std::byte> out(static_cast<size_t>(bytes));
  std::byte* at = out.data();
  Out rows(at);
  Out groups(at += kHeaderBytes + kUnitBytes * header.units);
  Out order(at += kGroupBytes * header.groups);
  Out path(at += kOrderBytes * header.groups);
  Out name(at + paths);
  Out counts(at + header.strings);
  rows.put(header);
  std::vector<Key> keys;
  keys.reserve(static_cast<size_t>(header.groups));
  uint64_t path_at = 0, name_at = paths, counts_at = 0, number = 0;
  for (const UnitRecord* of : sorted) {
    const UnitRecord& unit = *of;
    Unit row;
    row.path_at = path_at;
    row.path_length = static_cast<uint32_t>(unit.path.size());
    row.group_count = static_cast<uint32_t>(unit.groups.size());
    row.first_group = keys.size();
    row.size = unit.size;
    row.logical = unit.logical;
    row.hash = stored(unit.hash);
    row.content = stored(unit.content);
    rows.put(row);
    path.put(unit.path.data(), unit.path.size());
    path_at += unit.path.size();
    for (const std::string& group : unit.groups) {
      const std::string_view text = counts_of(unit, group);
      Group entry;
      entry.name_at = name_at;
      entry.name_length = static_cast<uint32_t>(group.size());
      entry.unit = number;
      if (const auto content = unit.group_contents.find(group);
          content != unit.group_contents.end()) {
        entry.flags |= kHasContent;
        entry.content = stored(content->second);
      }
      if (!text.empty()) entry.flags |= kHasCounts;
      entry.counts_at = counts_at;
      entry.counts_length = static_cast<uint32_t>(text.size());
      groups.put(entry);
      name.put(group.data(), group.size());
      counts.put(text.data(), text.size());
      name_at += group.size();
      counts_at += text.size();
      keys.push_back({kind_of(unit.path), group, rank_of(unit.path), number, keys.size()});
    }
    ++number;
  }
  std::ranges::sort(keys);
  for (const Key& key : keys) order.put(key.entry);
  return out;
}

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
  if (bytes_.size() < kHeaderBytes) throw malformed("the index has no whole header", bytes_.size());
  const auto header = load_as<Header>(bytes_.data());
  if (header.magic != kMagic) throw malformed("the index does not begin as one", 0);
  if (header.version != kIndexVersion) {
    throw malformed("the index is of version " + std::to_string(header.version) + ", expected " +
                        std::to_string(kIndexVersion),
                    8);
  }
  if (header.zero != 0 || header.reserved != std::array<uint64_t, 2>{}) {
    throw malformed("reserved bytes of the index are set, expected zeros", 8);
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
    if (part > most) throw malformed("the index is smaller than its header says", 16);
  }
  const uint64_t expected = kHeaderBytes + kUnitBytes * header.units +
                            (kGroupBytes + kOrderBytes) * header.groups + header.strings +
                            header.counts;
  if (expected != bytes_.size()) {
    throw malformed("the index has " + std::to_string(bytes_.size()) + " bytes, and its header " +
                        "counts " + std::to_string(expected),
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

UnitIndex::Unit UnitIndex::unit(size_t row) const {
  return load_as<Unit>(area(kUnits) + kUnitBytes * row);
}
UnitIndex::Group UnitIndex::group(size_t entry) const {
  return load_as<Group>(area(kGroups) + kGroupBytes * entry);
}
size_t UnitIndex::ordered(size_t place) const {
  return static_cast<size_t>(load_as<uint64_t>(area(kOrder) + kOrderBytes * place));
}
std::string_view UnitIndex::text(uint64_t at, uint64_t length) const {
  return {reinterpret_cast<const char*>(area(kStrings)) + at, static_cast<size_t>(length)};
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
      throw malformed("the paths of units do not follow one another", at);
    }
    if (unit.first_group != first_group || unit.group_count > groups_ - first_group) {
      throw malformed("the groups of units do not follow one another", at);
    }
    if (unit.size > kMostBytes || unit.logical > kMostBytes) {
      throw malformed("a unit has " + std::to_string(std::max(unit.size, unit.logical)) +
                          " bytes, at most 2^50",
                      at);
    }
    path_at += unit.path_length;
    first_group += unit.group_count;
    const std::string_view path = text(unit.path_at, unit.path_length);
    if (path < before) {
      throw malformed("the unit " + printable(path) + " stands behind " + printable(before) +
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
    throw malformed("a group is no unit's", kHeaderBytes + kUnitBytes * units_);
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
        throw malformed("the names or counts of groups do not follow one another", at);
      }
      const bool content = (group.flags & kHasContent) != 0, counts = group.counts_length > 0;
      if (group.unit != row || group.zero != 0 ||
          (group.flags & ~(kHasContent | kHasCounts)) != 0 ||
          counts != ((group.flags & kHasCounts) != 0) ||
          (!content && group.content != StoredHash{})) {
        throw malformed("a group is not of its unit, or its flags are not those of what it has",
                        at);
      }
      const std::string name(text(group.name_at, group.name_length));
      if (!sound_group_name(kind, name)) {
        throw malformed(
            "the group " + json_quoted(name) + " of a unit is not named as those of its kind", at);
      }
      name_at += group.name_length;
      counts_at += group.counts_length;
    }
  }
  if (name_at != strings_ || counts_at != counts_) {
    throw malformed("there are strings or counts that nothing has", bytes_.size());
  }
}

/// All groups, sorted by kind, name, rank and unit.
void UnitIndex::check_order() const {
  std::optional<Key> before;
  for (size_t place = 0; place < groups_; ++place) {
    const uint64_t at =
        kHeaderBytes + kUnitBytes * units_ + kGroupBytes * groups_ + kOrderBytes * place;
    const size_t entry = ordered(place);
    if (entry >= groups_) throw malformed("the order names a group that is not there", at);
    const Group group = this->group(entry);
    const std::string_view path = this->path(static_cast<size_t>(group.unit));
    const Key key{kind_of(path), text(group.name_at, group.name_length), rank_of(path), group.unit,
                  entry};
    if (before && !(*before < key)) throw malformed("the groups are not in their order", at);
    before = key;
  }
}

std::string_view UnitIndex::path(size_t row) const {
  const Unit of = unit(row);
  return text(of.path_at, of.path_length);
}

UnitRecord UnitIndex::record(size_t row) const {
  const Unit of = unit(row);
  UnitRecord out;
  out.path = text(of.path_at, of.path_length);
  out.size = of.size;
  out.logical = of.logical;
  out.hash = hash_from(of.hash);
  out.content = hash_from(of.content);
  for (uint64_t i = 0; i < of.group_count; ++i) {
    const Group entry = group(static_cast<size_t>(of.first_group + i));
    const std::string_view name = text(entry.name_at, entry.name_length);
    out.groups.emplace_back(name);
    if ((entry.flags & kHasContent) != 0) {
      out.group_contents.emplace(name, hash_from(entry.content));
    }
    if ((entry.flags & kHasCounts) != 0) {
      const char* counts = reinterpret_cast<const char*>(area(kCounts)) + entry.counts_at;
      out.counts.emplace(name, std::string(counts, entry.counts_length));
    }
  }
  return out;
}

namespace {

/// The first of `count` numbers for which `before` does not hold.
template <class Before>
size_t first_not(size_t count, Before before) {
  size_t begin = 0;
  while (count > 0) {
    const size_t half = count / 2;
    if (before(begin + half)) {
      begin += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return begin;
}

}  // namespace

std::optional<size_t> UnitIndex::find(std::string_view path) const {
  const size_t row = first_not(units_, [&](size_t at) { return this->path(at) < path; });
  if (row == units_ || this->path(row) != path) return std::nullopt;
  return row;
}

std::vector<size_t> UnitIndex::find(std::string_view kind, std::string_view group) const {
  const auto at = [&](size_t place) {
    const Group entry = this->group(ordered(place));
    return std::pair(kind_of(path(static_cast<size_t>(entry.unit))),
                     text(entry.name_at, entry.name_length));
  };
  const std::pair wanted(kind, group);
  std::vector<size_t> rows;
  for (size_t place = first_not(groups_, [&](size_t p) { return at(p) < wanted; });
       place < groups_ && at(place) == wanted; ++place) {
    const auto row = static_cast<size_t>(this->group(ordered(place)).unit);
    if (rows.empty() || rows.back() != row) rows.push_back(row);
  }
  return rows;
}

Hash UnitIndex::root(std::string_view meta) const {
  Hasher hasher;
  const auto add = [&](std::string_view text) {
    hasher.update(std::as_bytes(std::span<const char>(text)));
  };
  add("rlreplay root\n");
  add(meta);
  add("\n");
  std::string line;
  for (size_t row = 0; row < units_; ++row) {
    line = path(row);
    line += ' ';
    line += hash_from(unit(row).content).hex();
    line += '\n';
    add(line);
  }
  return hasher.finish();
}

struct UnitList::Made {
  using Piece = std::array<UnitRecord, kPiece>;

  explicit Made(size_t units) : pieces((units + kPiece - 1) / kPiece) {}

  std::vector<std::atomic<const Piece*>> pieces;
  std::mutex mutex;
  std::vector<std::unique_ptr<const Piece>> owned;
};

UnitList::UnitList(UnitIndex index)
    : index_(std::move(index)), made_(std::make_unique<Made>(index_.size())) {}
UnitList::~UnitList() = default;
UnitList::UnitList(UnitList&&) noexcept = default;

const UnitRecord& UnitList::operator[](size_t row) const {
  std::atomic<const Made::Piece*>& piece = made_->pieces[row / kPiece];
  if (const Made::Piece* there = piece.load(std::memory_order_acquire)) {
    return (*there)[row % kPiece];
  }
  std::lock_guard lock(made_->mutex);
  if (piece.load(std::memory_order_acquire) == nullptr) {
    auto fresh = std::make_unique<Made::Piece>();
    const size_t first = row - row % kPiece;
    for (size_t i = 0; i < std::min(kPiece, size() - first); ++i) {
      (*fresh)[i] = index_.record(first + i);
    }
    piece.store(fresh.get(), std::memory_order_release);
    made_->owned.push_back(std::move(fresh));
  }
  return (*piece.load(std::memory_order_acquire))[row % kPiece];
}

}  // namespace rlreplay::format
