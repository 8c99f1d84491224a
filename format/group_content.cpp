#include "format/group_content.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "format/dataset.h"
#include "format/group_io.h"
#include "format/tables.h"

namespace rlreplay::format {
namespace {

using Bytes = std::span<const std::byte>;

constexpr uint64_t kItemNumbers = sizeof(Hash) / sizeof(uint64_t);  // of an item that is kept

template <class T>
T load(Bytes bytes, size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

template <class To, class From>
void add_converted(Bytes bytes, Hasher& hasher) {
  constexpr size_t kPiece = 4096;
  std::vector<To> piece;
  const size_t count = bytes.size() / sizeof(From);
  for (size_t first = 0; first < count; first += kPiece) {
    piece.clear();
    for (size_t i = first; i < std::min(count, first + kPiece); ++i) {
      const auto value = static_cast<To>(load<From>(bytes, i));
      if constexpr (std::is_floating_point_v<To>) {
        piece.push_back(std::isnan(value) ? std::numeric_limits<To>::quiet_NaN() : value);
      } else {
        piece.push_back(value);
      }
    }
    hasher.update(std::as_bytes(std::span(piece)));
  }
}

/// The hash of elements of another type.
template <class To, class From>
Hash converted(Bytes bytes) {
  Hasher hasher;
  add_converted<To, From>(bytes, hasher);
  return hasher.finish();
}

template <class From, class Test>
bool all(Bytes bytes, Test test) {
  for (size_t i = 0; i < bytes.size() / sizeof(From); ++i) {
    if (!test(load<From>(bytes, i))) return false;
  }
  return true;
}

std::string as(const char* type, const Hash& hash) { return std::string(type) + " " + hash.hex(); }

/// Integers as the first of u8, i32, i64, u64 that holds them all.
template <class From>
std::string integers(Bytes bytes, const std::optional<Hash>& known) {
  const auto fits = [&]<class To>(To) {
    if constexpr (std::is_same_v<To, From>) return true;
    return all<From>(bytes, [](From x) { return std::in_range<To>(x); });
  };
  const auto hash = [&]<class To>(To) {
    if (std::is_same_v<To, From> && known) return *known;
    return converted<To, From>(bytes);
  };
  if (fits(uint8_t{})) return as("u8", hash(uint8_t{}));
  if (fits(int32_t{})) return as("i32", hash(int32_t{}));
  if (fits(int64_t{})) return as("i64", hash(int64_t{}));
  return as("u64", hash(uint64_t{}));
}

/// Floats as f32 where that holds them all, else as f64; a NaN is the quiet one without a sign.
std::string floats32(Bytes bytes, const std::optional<Hash>& known) {
  const bool plain = all<float>(bytes, [](float x) { return !std::isnan(x); });
  return as("f32", plain && known ? *known : converted<float, float>(bytes));
}

std::string floats64(Bytes bytes, const std::optional<Hash>& known) {
  const bool narrow = all<double>(bytes, [](double x) {
    return std::isnan(x) || static_cast<double>(static_cast<float>(x)) == x;
  });
  if (narrow) return as("f32", converted<float, double>(bytes));
  const bool plain = all<double>(bytes, [](double x) { return !std::isnan(x); });
  return as("f64", plain && known ? *known : converted<double, double>(bytes));
}

/// Type and hash of elements, the same for the same values.
std::string value_text(DType dtype, Bytes bytes, const std::optional<Hash>& known) {
  switch (dtype) {
    case DType::kBool:
    case DType::kU8:
      return as("u8", known ? *known : hash_of(bytes));
    case DType::kI8:
      return integers<int8_t>(bytes, known);
    case DType::kI16:
      return integers<int16_t>(bytes, known);
    case DType::kU16:
      return integers<uint16_t>(bytes, known);
    case DType::kI32:
      return integers<int32_t>(bytes, known);
    case DType::kU32:
      return integers<uint32_t>(bytes, known);
    case DType::kI64:
      return integers<int64_t>(bytes, known);
    case DType::kU64:
      return integers<uint64_t>(bytes, known);
    case DType::kF32:
      return floats32(bytes, known);
    case DType::kF64:
      return floats64(bytes, known);
    default:  // the bits of short floats
      return std::string(to_string(dtype)) + " " + (known ? *known : hash_of(bytes)).hex();
  }
}

std::string attributes_text(const h5::Attributes& attributes) {
  std::string text;
  for (const auto& [name, value] : attributes) {
    const auto* words = std::get_if<std::string>(&value);
    text += " " + name + "=";
    text += words != nullptr ? hash_of(*words).hex()
                             : comma_list(std::get<std::vector<uint64_t>>(value));
  }
  return text;
}

uint64_t elements(const GroupDataset& dataset) { return elements_of(dataset.shape).value_or(0); }

/// Elements of a place of the first axis.
uint64_t width_of(const GroupDataset& dataset) {
  uint64_t width = 1;
  for (size_t i = 1; i < dataset.shape.size(); ++i) width *= dataset.shape[i];
  return width;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

/// A line of an item without its key.
std::string item_text(const GroupDataset& dataset, const std::string& shape,
                      const std::string& value) {
  return value + " " + shape + attributes_text(dataset.attributes) + "\n";
}

Hash hash_of_item(std::string_view key, const std::string& text) {
  return hash_of(std::string(key) + " " + text);
}

/// Where a shard begins; empty for what is no shard.
std::string place_of(const GroupDataset& dataset) {
  const auto start = dataset.attributes.find("start");
  if (start == dataset.attributes.end()) return {};
  return attributes_text({*start});
}

/// The items of what is not of samples. What all units say has no owner; where they say different
/// things, each is told with the unit that says it.
void add_whole(std::string_view field, std::span<const GroupItems> units, std::vector<Hash>& to) {
  std::map<std::string_view, std::vector<std::pair<size_t, std::string_view>>> places;
  for (size_t u = 0; u < units.size(); ++u) {
    const auto found = units[u].find(field);
    if (found == units[u].end()) continue;
    for (const FieldItems::Whole& item : found->second.whole) {
      places[item.place].emplace_back(u, item.text);
    }
  }
  for (const auto& [place, said] : places) {
    const std::string_view first = said.front().second;
    const bool agree = std::ranges::all_of(said, [&](const auto& s) { return s.second == first; });
    for (const auto& [unit, text] : said) {
      to.push_back(hash_of_item(agree ? "-" : std::to_string(unit), std::string(text)));
    }
  }
}

/// The dataset that says where each sample's part of `letter` begins.
std::string offsets_for(std::string_view kind, char letter) {
  for (const KnownDataset& known : known_datasets()) {
    if (known.kind == kind && known.values == Values::kOffsets && known.total == letter) {
      return std::string(known.name);
    }
  }
  return {};
}

}  // namespace

void FloatHash::update(std::span<const std::byte> piece) {
  add_converted<float, float>(piece, hasher_);
}

std::map<std::string, Hash> group_contents(std::string_view kind,
                                           std::span<const Dataset> datasets) {
  std::map<std::string, Hash> out;
  if (!has_content(kind)) return out;
  std::map<std::string, std::map<std::string, const Dataset*>> groups;
  for (const Dataset& d : datasets) {
    const size_t slash = d.path.find('/');
    groups[d.path.substr(0, slash)].emplace(d.path.substr(slash + 1), &d);
  }
  for (const auto& [group, members] : groups) {
    std::vector<GroupDataset> forms;
    for (const auto& [name, d] : members)
      forms.push_back({name, d->dtype, d->shape, d->attributes});
    GroupContent content(kind, std::move(forms), [&members = members](const GroupDataset& of) {
      const auto bytes = members.at(of.name)->bytes;
      return std::vector<std::byte>(bytes.begin(), bytes.end());
    });
    for (const auto& [name, d] : members) content.add(name, d->bytes, d->known_hash);
    out.emplace(group, hash_of_fields(field_hashes({&content.items(), 1})));
  }
  return out;
}

bool has_content(std::string_view kind) {
  return kind == "rollout" || kind == "train" || kind == "weights";
}

GroupContent::GroupContent(std::string_view kind, std::vector<GroupDataset> datasets,
                           const Read& read, const Hold& hold)
    : kind_(kind), datasets_(std::move(datasets)), hold_(hold) {
  std::ranges::sort(datasets_, {}, &GroupDataset::name);
  if (kind != "weights") find_samples(read);
  if (samples_) find_columns(read);
}

void GroupContent::hold(std::string_view name, uint64_t samples, uint64_t numbers) const {
  if (hold_) hold_(name, samples * numbers * sizeof(uint64_t));
}

const GroupDataset* GroupContent::find(std::string_view name) const {
  const auto at = std::ranges::lower_bound(datasets_, name, {}, &GroupDataset::name);
  return at == datasets_.end() || at->name != name ? nullptr : &*at;
}

std::optional<GroupContent::Offsets> GroupContent::read_offsets(std::string_view name, size_t size,
                                                                const Read& read) {
  const GroupDataset* dataset = find(name);
  if (dataset == nullptr || dataset->dtype != DType::kU64 || dataset->shape.size() != 1 ||
      dataset->shape[0] != size + 1) {
    return std::nullopt;
  }
  hold(name, size, 1);
  const std::vector<std::byte> bytes = read(*dataset);
  Offsets offsets(size + 1);
  std::memcpy(offsets.data(), bytes.data(), bytes.size());
  if (offsets.front() != 0 || !std::ranges::is_sorted(offsets)) return std::nullopt;
  structure_.emplace(name);
  return offsets;
}

/// Samples that do not fit together are none: then every dataset counts as it is.
void GroupContent::find_samples(const Read& read) {
  const GroupDataset* ids = find("sample_id");
  if (ids == nullptr || ids->dtype != DType::kU64 || ids->shape.size() != 1) return;
  auto offsets = read_offsets("offsets", ids->shape[0], read);
  if (!offsets) return;
  tokens_ = std::move(*offsets);
  hold("sample_id", ids->shape[0], 1 + kItemNumbers);
  const std::vector<std::byte> bytes = read(*ids);
  ids_.resize(ids->shape[0]);
  if (!bytes.empty()) std::memcpy(ids_.data(), bytes.data(), bytes.size());
  samples_ = true;
  structure_.insert("sample_id");
  const GroupDataset length{"samples", DType::kU64, {1}, {}};
  for (size_t s = 0; s < ids_.size(); ++s) {
    const uint64_t count = tokens_[s + 1] - tokens_[s];
    put_sample("samples", ids_[s], length, "1", std::as_bytes(std::span(&count, 1)));
  }
}

void GroupContent::find_columns(const Read& read) {
  for (const GroupDataset& dataset : datasets_) {
    auto places = places_of(dataset, read);
    if (!places) continue;
    hold(dataset.name, ids_.size(), kItemNumbers);
    places_.emplace(dataset.name, std::move(*places));
    const GroupDataset* present = find(presence_name(dataset.name));
    if (present != nullptr && size_of(present->dtype) == 1 && elements(*present) == ids_.size()) {
      presences_.emplace(dataset.name, read(*present));
      structure_.insert(present->name);
    }
  }
}

std::optional<GroupContent::Offsets> GroupContent::places_of(const GroupDataset& dataset,
                                                             const Read& read) {
  const KnownDataset* known = find_known(kind_, dataset.name);
  if (known == nullptr || known->kind != kind_ || known->name.find('/') != known->name.npos) {
    return std::nullopt;
  }
  const char axis = known->shape.front();
  std::optional<Offsets> places;
  if (known->values == Values::kOffsets || known->name == "scalars") return std::nullopt;
  if (axis == 'S' || axis == 'T') hold(dataset.name, ids_.size(), 1);
  if (axis == 'S') {
    places.emplace(ids_.size() + 1);
    for (size_t s = 0; s < places->size(); ++s) (*places)[s] = s;
  } else if (axis == 'T') {
    places = tokens_;
  } else {
    places = read_offsets(offsets_for(kind_, axis), ids_.size(), read);
  }
  if (!places || dataset.shape.front() != places->back()) return std::nullopt;
  return places;
}

void GroupContent::add(std::string_view name, std::span<const std::byte> bytes,
                       const std::optional<Hash>& hash) {
  const GroupDataset* dataset = find(name);
  if (dataset == nullptr) return;
  if (structure_.contains(name)) return;
  if (const auto places = places_.find(name); places != places_.end()) {
    if (name != "micro_batch") add_samples(*dataset, places->second, bytes);
    return;
  }
  const bool columns = dataset->shape.size() == 1 && dataset->attributes.contains("columns");
  if (name == "scalars" && columns) return add_named(*dataset, bytes);
  put_whole(dataset->name, *dataset, value_text(dataset->dtype, bytes, hash));
}

bool GroupContent::is_plain_floats(std::string_view name) const {
  const GroupDataset* dataset = find(name);
  return dataset != nullptr && dataset->dtype == DType::kF32 && name != "scalars" &&
         !structure_.contains(name) && !places_.contains(name);
}

void GroupContent::add_floats(std::string_view name, const FloatHash& hash) {
  const GroupDataset* dataset = find(name);
  if (dataset == nullptr) return;
  put_whole(dataset->name, *dataset, as("f32", hash.finish()));
}

void GroupContent::add_samples(const GroupDataset& dataset, const Offsets& places,
                               std::span<const std::byte> bytes) {
  const uint64_t width = width_of(dataset);
  const uint64_t size = width * size_of(dataset.dtype);
  const auto presence = presences_.find(dataset.name);
  std::vector<uint64_t> shape = dataset.shape;
  for (size_t s = 0; s < ids_.size(); ++s) {
    if (presence != presences_.end() && presence->second[s] == std::byte{0}) continue;
    const uint64_t begin = places[s], count = places[s + 1] - begin;
    shape[0] = count;
    put_sample(dataset.name, ids_[s], dataset, comma_list(shape),
               bytes.subspan(begin * size, count * size));
  }
}

/// Of numbers with names, none twice, each is a field of its own.
void GroupContent::add_named(const GroupDataset& dataset, std::span<const std::byte> bytes) {
  const auto* text = std::get_if<std::string>(&dataset.attributes.at("columns"));
  const std::vector<std::string> names =
      text == nullptr || text->empty() ? std::vector<std::string>{} : lines_of(*text);
  const std::set<std::string> distinct(names.begin(), names.end());
  if (distinct.size() != dataset.shape[0] || distinct.size() != names.size()) {
    return put_whole(dataset.name, dataset, value_text(dataset.dtype, bytes, {}));
  }
  GroupDataset one = dataset;
  one.attributes.erase("columns");
  one.shape = {1};
  const size_t size = size_of(dataset.dtype);
  for (size_t i = 0; i < names.size(); ++i) {
    put_whole(dataset.name + "/" + names[i], one,
              value_text(dataset.dtype, bytes.subspan(i * size, size), {}));
  }
}

void GroupContent::put_sample(const std::string& field, uint64_t id, const GroupDataset& dataset,
                              const std::string& shape, std::span<const std::byte> bytes) {
  const std::string text = item_text(dataset, shape, value_text(dataset.dtype, bytes, {}));
  std::vector<Hash>& samples = items_[field].samples;
  if (samples.empty()) samples.reserve(ids_.size());
  samples.push_back(hash_of_item(std::to_string(id), text));
}

void GroupContent::put_whole(const std::string& field, const GroupDataset& dataset,
                             const std::string& value) {
  items_[field].whole.push_back(
      {place_of(dataset), item_text(dataset, comma_list(dataset.shape), value)});
}

std::map<std::string, Hash> field_hashes(std::span<const GroupItems> units) {
  std::set<std::string_view> fields;
  for (const GroupItems& unit : units) {
    for (const auto& said : unit) fields.insert(said.first);
  }
  std::map<std::string, Hash> out;
  for (const std::string_view field : fields) {
    std::vector<Hash> hashes;
    for (const GroupItems& unit : units) {
      const auto found = unit.find(field);
      if (found == unit.end()) continue;
      const std::vector<Hash>& samples = found->second.samples;
      hashes.insert(hashes.end(), samples.begin(), samples.end());
    }
    add_whole(field, units, hashes);
    std::ranges::sort(hashes);
    hashes.erase(std::unique(hashes.begin(), hashes.end()), hashes.end());
    Hasher hasher;
    for (const Hash& hash : hashes) {
      const std::string line = hash.hex() + "\n";
      hasher.update(std::as_bytes(std::span(line)));
    }
    out.emplace(field, hasher.finish());
  }
  return out;
}

Hash hash_of_fields(const std::map<std::string, Hash>& fields) {
  std::string text;
  for (const auto& [field, hash] : fields) text += field + " " + hash.hex() + "\n";
  return hash_of(text);
}

}  // namespace rlreplay::format
