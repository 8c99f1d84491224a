#include "format/chain_reader.h"

#include <algorithm>
#include <utility>

#include "format/dump_reader.h"
#include "format/rule.h"

namespace rlreplay::format {
namespace {

constexpr char kTooDeep[] = "too many differences lie between the tensor and its full copy";

FormatError wrong(const std::string& what, const std::string& unit, const StoredDataset& dataset) {
  return {Rule::kParent, what, unit, dataset.path};
}

/// What a difference rests on: the same name in whatever group, a full copy if there is one.
const StoredDataset& base_of(const StoredDataset& difference, const std::string& of,
                             const UnitReader& unit) {
  const StoredDataset* found = nullptr;
  for (const StoredDataset& d : unit.datasets()) {
    if (d.hash != difference.base->hash || d.name() != difference.name()) continue;
    if (d.dtype != difference.dtype || d.shape != difference.shape) continue;
    if (found == nullptr || !d.base) found = &d;
  }
  if (found == nullptr) {
    throw wrong("the base with the hash " + difference.base->hash.hex() + " is not in " +
                    difference.base->unit,
                of, difference);
  }
  return *found;
}

}  // namespace

ChainReader::ChainReader(const DumpReader& dump, Place place)
    : dump_(dump), place_(std::move(place)) {}

void ChainReader::Link::add(std::string name, const StoredDataset& dataset) {
  if (!base_unit.empty() && base_unit != dataset.base->unit) {
    throw wrong("the differences of a group rest on several units", of, dataset);
  }
  base_unit = dataset.base->unit;
  differences.emplace(std::move(name), dataset);
}

ChainReader::Link ChainReader::differences_of(const UnitReader& unit,
                                              std::string_view group) const {
  Link out;
  out.of = unit.record().path;
  for (const StoredDataset& d : unit.datasets_of(group)) {
    if (d.base && !place_(d).empty()) out.add(std::string(d.name()), d);
  }
  return out;
}

bool ChainReader::holds_bases(const Link& link) const {
  return std::ranges::all_of(link.differences, [&](const auto& difference) {
    const auto held = held_.find(difference.first);
    return held != held_.end() && held->second.hash == difference.second.base->hash;
  });
}

const UnitRecord& ChainReader::base_record(const Link& link) const {
  if (const UnitRecord* record = dump_.find(link.base_unit)) return *record;
  throw wrong("the unit of the base is not in the dump", link.of, link.differences.begin()->second);
}

void ChainReader::begin(const UnitReader& unit, std::string_view group) {
  std::vector<Link> links = {differences_of(unit, group)};
  while (!holds_bases(links.back())) {
    if (links.size() > static_cast<size_t>(dump_.options().base_depth)) {
      throw wrong(kTooDeep, links.front().of, links.front().differences.begin()->second);
    }
    const UnitReader base = dump_.open_unit(base_record(links.back()));
    Link next;
    next.of = base.record().path;
    for (const auto& [name, difference] : links.back().differences) {
      const StoredDataset& found = base_of(difference, links.back().of, base);
      if (found.base) next.add(name, found);
    }
    links.push_back(std::move(next));
  }
  links.pop_back();  // its bases are there
  for (; !links.empty(); links.pop_back()) decode_bases(links.back());
}

void ChainReader::decode_bases(const Link& link) {
  const UnitReader unit = dump_.open_unit(base_record(link));
  for (const auto& [name, difference] : link.differences) {
    read(unit, base_of(difference, link.of, unit));
  }
}

std::span<const std::byte> ChainReader::read(const UnitReader& unit, const StoredDataset& dataset) {
  const std::span<std::byte> place = place_(dataset);
  const std::string name(dataset.name());
  int depth = 0;
  if (dataset.base && !place.empty()) {
    const auto base = held_.find(name);
    if (base == held_.end() || base->second.hash != dataset.base->hash) {
      throw wrong("the base could not be read", unit.record().path, dataset);
    }
    depth = base->second.depth + 1;
    if (depth > dump_.options().base_depth) throw wrong(kTooDeep, unit.record().path, dataset);
  }
  held_.erase(name);  // until it is whole again
  unit.read(dataset, place, place);
  held_[name] = {dataset.hash, depth};
  return place;
}

}  // namespace rlreplay::format
