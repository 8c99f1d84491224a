#include "format/unit_index.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "format/unit_index_rows.h"

namespace rlreplay::format {
namespace {

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
  IndexHeader header;
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
  // One cursor for each area, which follow each other: the header and rows of units, entries of
  // groups, their sorted order, strings, counts. Strings are all paths, then all names of groups.
  Buffer<std::byte> out(static_cast<size_t>(bytes));
  std::byte* at = out.data();
  Out rows(at);
  Out groups(at += kHeaderBytes + kUnitBytes * header.units);
  Out order(at += kGroupBytes * header.groups);
  Out path(at += kOrderBytes * header.groups);
  Out name(at + paths);
  Out counts(at + header.strings);
  rows.put(header);
  std::vector<GroupKey> keys;
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
    row.hash = stored_hash(unit.hash);
    row.content = stored_hash(unit.content);
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
        entry.content = stored_hash(content->second);
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
  for (const GroupKey& key : keys) order.put(key.entry);
  return out;
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

std::string_view UnitIndex::path(size_t row) const {
  const Unit of = unit(row);
  return text(of.path_at, of.path_length);
}

uint64_t UnitIndex::stored_bytes() const {
  uint64_t bytes = 0;
  for (size_t row = 0; row < units_; ++row) bytes += unit(row).size;
  return bytes;
}

IndexedGroup UnitIndex::indexed_group(size_t number) const {
  const Group entry = group(number);
  IndexedGroup out;
  out.row = static_cast<size_t>(entry.unit);
  out.path = path(out.row);
  out.name = text(entry.name_at, entry.name_length);
  out.counts = {reinterpret_cast<const char*>(area(kCounts)) + entry.counts_at,
                entry.counts_length};
  if ((entry.flags & kHasContent) != 0) out.content = from_stored(entry.content);
  return out;
}

void UnitIndex::for_each_name(const std::function<void(std::span<const IndexedGroup>)>& use) const {
  std::vector<IndexedGroup> alike;
  for (size_t place = 0; place < groups_; ++place) {
    const IndexedGroup next = indexed_group(ordered(place));
    if (!alike.empty() && (next.name != alike[0].name || next.kind() != alike[0].kind())) {
      use(alike);
      alike.clear();
    }
    alike.push_back(next);
  }
  if (!alike.empty()) use(alike);
}

UnitRecord UnitIndex::record(size_t row) const {
  const Unit of = unit(row);
  UnitRecord out;
  out.path = text(of.path_at, of.path_length);
  out.size = of.size;
  out.logical = of.logical;
  out.hash = from_stored(of.hash);
  out.content = from_stored(of.content);
  for (uint64_t i = 0; i < of.group_count; ++i) {
    const IndexedGroup group = indexed_group(static_cast<size_t>(of.first_group + i));
    out.groups.emplace_back(group.name);
    if (group.content) out.group_contents.emplace(group.name, *group.content);
    if (!group.counts.empty()) out.counts.emplace(group.name, group.counts);
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
    line += from_stored(unit(row).content).hex();
    line += '\n';
    add(line);
  }
  return hasher.finish();
}

}  // namespace rlreplay::format
