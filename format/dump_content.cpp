#include "format/dump_content.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

#include "format/chain_reader.h"
#include "format/dataset.h"
#include "format/group_io.h"
#include "format/whole_dataset.h"
#include "src/base/error.h"

namespace rlreplay::format {
namespace {

/// What is known of a group from the units that were read so far.
struct Gathered {
  std::vector<GroupItems> items;  // in the order of the units' ranks
  size_t read = 0;
  HeldBytes held;  // of all of its units
};

std::vector<std::byte> vector_of(const Buffer<std::byte>& bytes) {
  return {bytes.data(), bytes.data() + bytes.size()};
}

}  // namespace

std::vector<GroupDataset> datasets_of(const UnitReader& unit, std::string_view group) {
  std::vector<GroupDataset> out;
  for (const StoredDataset& d : unit.datasets_of(group)) {
    out.push_back({std::string(d.name()), d.dtype, d.shape, d.attributes});
  }
  return out;
}

void add_plain(const UnitReader& unit, const StoredDataset& dataset, GroupContent& content,
               const std::function<void(std::span<const std::byte>)>& seen) {
  const std::string_view name = dataset.name();
  // Others of rollouts and steps lie in tables, of which no real one takes so much.
  const bool tensor = dataset.dtype == DType::kF32 || kind_of(unit.record().path) == "weights";
  if (dataset.bytes > kPieceByPiece && tensor && content.is_whole(name)) {
    bool streamed = false;
    const ElementPieces pieces = [&](const UnitReader::Use& use) {
      const bool again = std::exchange(streamed, true);
      unit.stream(dataset, [&](std::span<const std::byte> piece) {
        if (seen && !again) seen(piece);
        use(piece);
      });
    };
    content.add_pieces(name, pieces, dataset.hash);
    if (!streamed) unit.stream(dataset, seen);  // its hash is known, and not yet checked
    return;
  }
  check_whole(unit.record(), dataset);
  Buffer<std::byte> room(dataset.bytes);
  unit.read(dataset, room);
  if (seen) seen(room);
  content.add(name, room, dataset.hash);
}

void check_values(const DumpReader& dump, const UnitReader& unit) {
  for (const StoredDataset& d : unit.datasets()) {
    check_whole(unit.record(), d);
    if (d.base) {
      dump.read(unit, d);
    } else {
      unit.stream(d);
    }
  }
}

std::vector<std::byte> read_table(const DumpReader& dump, const UnitReader& unit,
                                  const std::string& path) {
  const StoredDataset& dataset = *unit.find(path);
  check_budget(unit.record(), path, dataset.bytes);
  std::vector<std::byte> bytes = vector_of(dump.read(unit, dataset));
  if (path.ends_with(kPresenceSuffix)) check_mask(bytes, unit.record().path, path);
  return bytes;
}

GroupContent::Hold hold_for(const UnitReader& unit, std::string_view group, HeldBytes& held) {
  return [&unit, group, &held](std::string_view name, uint64_t bytes) {
    held.hold(unit.record(), std::string(group) + "/" + std::string(name), bytes);
  };
}

GroupItems read_items(const DumpReader& dump, const UnitReader& unit, const std::string& group,
                      HeldBytes& held) {
  const auto read = [&](const GroupDataset& dataset) {
    return read_table(dump, unit, group + "/" + dataset.name);
  };
  GroupContent content(kind_of(unit.record().path), datasets_of(unit, group), read,
                       hold_for(unit, group, held));
  std::map<std::string, Buffer<std::byte>, std::less<>> places;  // of differences
  ChainReader chain(dump, [&](const StoredDataset& dataset) {
    Buffer<std::byte>& place = places[std::string(dataset.name())];
    if (place.size() != dataset.bytes) {
      check_memory(unit.record(), dataset.path, dataset.bytes);
      place = Buffer<std::byte>(dataset.bytes);
    }
    return std::span<std::byte>(place);
  });
  chain.begin(unit, group);
  for (const StoredDataset& dataset : unit.datasets_of(group)) {
    if (dataset.base) {
      content.add(dataset.name(), chain.read(unit, dataset), dataset.hash);
    } else {
      add_plain(unit, dataset, content);
    }
  }
  return content.items();
}

PartSource GroupParts::source() {
  return {[this](size_t unit, const std::string& dataset) { return read(unit, dataset); },
          [this](size_t unit, const std::string& dataset, uint64_t bytes) {
            check_memory(unit_(unit).record(), group_ + "/" + dataset, bytes);
          }};
}

// The boxes of a tensor come in any order, and several of one dataset: what is decoded is kept.
std::span<const std::byte> GroupParts::read(size_t unit, const std::string& dataset) {
  constexpr uint64_t kMostKept = uint64_t{1} << 30;  // as large as a unit of states
  const auto found = decoded_.find({unit, dataset});
  if (found != decoded_.end()) return {found->second.data(), found->second.size()};
  const UnitReader& reader = unit_(unit);
  const StoredDataset* stored = reader.find(group_ + "/" + dataset);
  check(stored != nullptr, "a part is of no dataset");
  Buffer<std::byte> bytes = dump_.read(reader, *stored);
  if (bytes_ + bytes.size() > kMostKept) {
    decoded_.clear();
    bytes_ = 0;
  }
  bytes_ += bytes.size();
  Buffer<std::byte>& kept = decoded_[{unit, dataset}];
  kept = std::move(bytes);
  return kept;
}

// Units are held in memory up to kMostHeldUnit together; the others are mapped (most_held of 0).
GroupParts::Unit opened_units(const DumpReader& dump, std::vector<const UnitRecord*> units) {
  constexpr size_t kMostOpen = 4096;  // mapped units: a process may have 65,530 mappings
  struct Open {
    std::map<size_t, UnitReader> units;
    uint64_t bytes = 0;  // of those that are held
  };
  return [&dump, units = std::move(units),
          open = std::make_shared<Open>()](size_t number) -> const UnitReader& {
    const auto found = open->units.find(number);
    if (found != open->units.end()) return found->second;
    if (open->units.size() == kMostOpen) *open = {};
    const UnitRecord& record = *units.at(number);
    const bool held = open->bytes + record.size <= kMostHeldUnit;
    if (held) open->bytes += record.size;
    return open->units.emplace(number, dump.open_unit(record, held ? record.size : 0))
        .first->second;
  };
}

std::map<std::string, Hash> read_fields(const DumpReader& dump, std::string_view kind,
                                        const std::string& group) {
  std::vector<GroupItems> units;
  HeldBytes held;
  const auto records = dump.find(kind, group);
  for (const UnitRecord* record : records) {
    units.push_back(read_items(dump, dump.open_unit(*record), group, held));
  }
  GroupParts parts(dump, group, opened_units(dump, records));
  return field_hashes(units, parts.source());
}

bool same_content(std::span<const UnitRecord* const> a, std::span<const UnitRecord* const> b) {
  return std::ranges::equal(a, b, std::equal_to(), &UnitRecord::content, &UnitRecord::content);
}

std::map<std::pair<std::string, std::string>, Hash> group_contents(const DumpReader& dump) {
  std::map<std::pair<std::string, std::string>, Hash> out;
  std::map<std::pair<std::string, std::string>, Gathered> open;  // groups with units to come
  for (const UnitRecord& record : dump.units()) {
    const std::string kind(kind_of(record.path));
    if (!has_content(kind)) continue;
    std::optional<UnitReader> unit;
    for (const std::string& group : record.groups) {
      const std::pair key(kind, group);
      const auto holders = dump.find(kind, group);
      const auto known = record.group_contents.find(group);
      if (holders.size() == 1 && known != record.group_contents.end()) {
        out.emplace(key, known->second);
        continue;
      }
      if (!unit) unit.emplace(dump.open_unit(record));
      Gathered& gathered = open[key];
      gathered.items.resize(holders.size());
      const auto at = std::ranges::find(holders, &record) - holders.begin();
      gathered.items[static_cast<size_t>(at)] = read_items(dump, *unit, group, gathered.held);
      if (++gathered.read < holders.size()) continue;
      GroupParts parts(dump, group, opened_units(dump, holders));
      out.emplace(key, hash_of_fields(field_hashes(gathered.items, parts.source())));
      open.erase(key);
    }
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> content_groups(const DumpReader& dump) {
  std::vector<std::pair<std::string, std::string>> out;
  dump.units().index().for_each_name([&](std::span<const IndexedGroup> groups) {
    if (has_content(groups[0].kind())) out.emplace_back(groups[0].kind(), groups[0].name);
  });
  return out;
}

}  // namespace rlreplay::format
