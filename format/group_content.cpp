#include "format/group_content.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "format/boxes.h"
#include "format/columns.h"
#include "format/dataset.h"
#include "format/group_io.h"

namespace rlreplay::format {
namespace {

constexpr uint64_t kItemNumbers = sizeof(Hash) / sizeof(uint64_t);  // of an item that is kept
constexpr uint64_t kPartNumbers = 40;                               // of a part, its texts too
constexpr std::string_view kSliceOffsets = "slice_offsets", kSlices = "slices",
                           kLengths = "lengths", kCoordinates = "coordinates";

uint64_t elements(const GroupDataset& dataset) { return elements_of(dataset.shape).value_or(0); }

/// Elements of a place of the first axis.
uint64_t width_of(const GroupDataset& dataset) {
  uint64_t width = 1;
  for (size_t i = 1; i < dataset.shape.size(); ++i) width *= dataset.shape[i];
  return width;
}

/// The items of what is not of samples, and of parts. What all units say has no owner; where they
/// say different things, each is told with the unit that says it.
void add_whole(std::string_view field, std::span<const GroupItems> units, const PartSource& source,
               std::vector<Hash>& to) {
  std::vector<std::pair<size_t, const FieldItems::Whole*>> whole;
  std::vector<UnitPart> parts;
  for (size_t u = 0; u < units.size(); ++u) {
    const auto found = units[u].find(field);
    if (found == units[u].end()) continue;
    for (const Part& part : found->second.parts) parts.push_back({u, &part});
    for (const FieldItems::Whole& item : found->second.whole) whole.emplace_back(u, &item);
  }
  if (!parts.empty()) {
    for (const auto& [u, item] : whole) parts.push_back({u, &item->part});
    const std::vector<Hash> items = part_items(parts, source);
    to.insert(to.end(), items.begin(), items.end());
    return;
  }
  const bool agree = std::ranges::all_of(
      whole, [&](const auto& said) { return said.second->text == whole.front().second->text; });
  for (const auto& [unit, item] : whole) {
    to.push_back(hash_of_item(agree ? "-" : std::to_string(unit), item->text));
  }
}

}  // namespace

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
    if (content.is_cut()) continue;
    out.emplace(group, hash_of_fields(field_hashes({&content.items(), 1}, {})));
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

std::vector<uint64_t> GroupContent::read_numbers(const GroupDataset& dataset, const Read& read) {
  hold(dataset.name, elements(dataset), 1);
  const std::vector<std::byte> bytes = read(dataset);
  std::vector<uint64_t> numbers(elements(dataset));
  if (!bytes.empty()) std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

std::optional<GroupContent::Offsets> GroupContent::read_offsets(std::string_view name, size_t size,
                                                                const Read& read) {
  const GroupDataset* dataset = find(name);
  if (dataset == nullptr || dataset->dtype != DType::kU64 || dataset->shape.size() != 1 ||
      dataset->shape[0] != size + 1) {
    return std::nullopt;
  }
  Offsets offsets = read_numbers(*dataset, read);
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
  hold("sample_id", ids->shape[0], kItemNumbers);
  ids_ = read_numbers(*ids, read);
  samples_ = find_slices(read);
  if (!samples_) return;
  structure_.insert("sample_id");
  const GroupDataset length{"samples", DType::kU64, {1}, {}};
  for (size_t s = 0; s < ids_.size(); ++s) {
    const uint64_t count = lengths_.empty() ? tokens_[s + 1] - tokens_[s] : lengths_[s];
    put_sample("samples", ids_[s], length, "1", std::as_bytes(std::span(&count, 1)));
  }
}

/// Returns whether they agree with the samples, where there are any.
bool GroupContent::find_slices(const Read& read) {
  const GroupDataset *slices = find(kSlices), *lengths = find(kLengths);
  if (kind_ != "train" || (slices == nullptr && lengths == nullptr)) return true;
  if (slices == nullptr || slices->dtype != DType::kU64 || slices->shape.size() != 2 ||
      slices->shape[1] != 2 || lengths == nullptr || lengths->dtype != DType::kU64 ||
      lengths->shape != std::vector<uint64_t>{ids_.size()}) {
    return false;
  }
  auto offsets = read_offsets(kSliceOffsets, ids_.size(), read);
  if (!offsets || offsets->back() != slices->shape[0]) return false;
  slice_offsets_ = std::move(*offsets);
  lengths_ = read_numbers(*lengths, read);
  const std::vector<uint64_t> numbers = read_numbers(*slices, read);
  hold(kSlices, slices->shape[0], sizeof(Interval) / sizeof(uint64_t));
  for (size_t s = 0; s < ids_.size(); ++s) {
    uint64_t stored = 0;
    for (uint64_t i = slice_offsets_[s]; i < slice_offsets_[s + 1]; ++i) {
      const Interval slice{numbers[2 * i], numbers[2 * i + 1], lengths_[s]};
      if (!lies_within(slice)) return false;
      stored += slice.length;
      slices_.push_back(slice);
    }
    if (stored != tokens_[s + 1] - tokens_[s]) return false;
  }
  structure_.emplace(kSlices);
  structure_.emplace(kLengths);
  return true;
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
  if (name == kCoordinates) return;
  if (format::is_cut(dataset->attributes)) return add_boxes(*dataset);
  put_whole(dataset->name, *dataset, elements_text(dataset->dtype, bytes, hash));
}

bool GroupContent::is_whole(std::string_view name) const {
  const GroupDataset* dataset = find(name);
  return dataset != nullptr && name != "scalars" && name != kCoordinates &&
         !structure_.contains(name) && !places_.contains(name) &&
         !format::is_cut(dataset->attributes);
}

void GroupContent::add_pieces(std::string_view name, const ElementPieces& pieces,
                              const Hash& hash) {
  const GroupDataset* dataset = find(name);
  if (dataset == nullptr) return;
  put_whole(dataset->name, *dataset, elements_text(dataset->dtype, pieces, hash));
}

void GroupContent::add_samples(const GroupDataset& dataset, const Offsets& places,
                               std::span<const std::byte> bytes) {
  const uint64_t width = width_of(dataset);
  const uint64_t size = width * size_of(dataset.dtype);
  const auto presence = presences_.find(dataset.name);
  const bool sliced =
      !slice_offsets_.empty() && find_known(kind_, dataset.name)->shape.front() == 'T';
  if (sliced) hold(dataset.name, ids_.size() + slices_.size(), kPartNumbers);
  std::vector<uint64_t> shape = dataset.shape;
  for (size_t s = 0; s < ids_.size(); ++s) {
    if (presence != presences_.end() && presence->second[s] == std::byte{0}) continue;
    if (sliced) {
      add_slices(dataset, s);
      continue;
    }
    const uint64_t begin = places[s], count = places[s + 1] - begin;
    shape[0] = count;
    put_sample(dataset.name, ids_[s], dataset, comma_list(shape),
               bytes.subspan(begin * size, count * size));
  }
}

/// The parts of a sample's tokens, and an empty one, so that a sample of no tokens is said as well.
void GroupContent::add_slices(const GroupDataset& dataset, size_t sample) {
  const uint64_t width = width_of(dataset);
  std::vector<uint64_t> shape = dataset.shape;
  shape[0] = lengths_[sample];
  Part part{std::to_string(ids_[sample]), dataset.name,
            tokens_[sample] * width,      dataset.dtype,
            whole_box({}, shape),         attributes_text(dataset.attributes)};
  std::vector<Part>& parts = items_[dataset.name].parts;
  part.box.dims[0] = {0, 0, lengths_[sample]};
  parts.push_back(part);
  for (uint64_t i = slice_offsets_[sample]; i < slice_offsets_[sample + 1]; ++i) {
    part.box.dims[0] = slices_[i];
    parts.push_back(part);
    part.begin += slices_[i].length * width;
  }
}

/// The blocks of other tensors that a dataset holds.
void GroupContent::add_boxes(const GroupDataset& dataset) {
  const auto boxes = boxes_of(dataset.name, dataset.shape, dataset.attributes);
  if (!boxes) return put_whole(dataset.name, dataset, "unsound");
  uint64_t begin = 0;
  for (const Box& box : *boxes) {
    if (!box.tensor.empty()) {
      items_[box.tensor].parts.push_back(
          {{}, dataset.name, begin, dataset.dtype, box, attributes_text(dataset.attributes)});
    }
    begin += box.elements();
  }
}

/// Adds numbers with names: each is a field of its own, unless a name is there twice.
void GroupContent::add_named(const GroupDataset& dataset, std::span<const std::byte> bytes) {
  const auto* text = std::get_if<std::string>(&dataset.attributes.at("columns"));
  const std::vector<std::string> names =
      text == nullptr || text->empty() ? std::vector<std::string>{} : lines_of(*text);
  const std::set<std::string> distinct(names.begin(), names.end());
  if (distinct.size() != dataset.shape[0] || distinct.size() != names.size()) {
    return put_whole(dataset.name, dataset, elements_text(dataset.dtype, bytes, {}));
  }
  GroupDataset one = dataset;
  one.attributes.erase("columns");
  one.shape = {1};
  const size_t size = size_of(dataset.dtype);
  for (size_t i = 0; i < names.size(); ++i) {
    put_whole(dataset.name + "/" + names[i], one,
              elements_text(dataset.dtype, bytes.subspan(i * size, size), {}));
  }
}

void GroupContent::put_sample(const std::string& field, uint64_t id, const GroupDataset& dataset,
                              const std::string& shape, std::span<const std::byte> bytes) {
  const std::string text = elements_text(dataset.dtype, bytes, {}) + " " + shape +
                           attributes_text(dataset.attributes) + "\n";
  std::vector<Hash>& samples = items_[field].samples;
  if (samples.empty()) samples.reserve(ids_.size());
  samples.push_back(hash_of_item(std::to_string(id), text));
}

void GroupContent::put_whole(const std::string& field, const GroupDataset& dataset,
                             const std::string& value) {
  const std::string attributes = attributes_text(dataset.attributes);
  items_[field].whole.push_back(
      {value + " " + comma_list(dataset.shape) + attributes + "\n",
       {{}, dataset.name, 0, dataset.dtype, whole_box(field, dataset.shape), attributes}});
}

bool GroupContent::is_cut() const {
  return !slice_offsets_.empty() || std::ranges::any_of(datasets_, [](const GroupDataset& dataset) {
    return format::is_cut(dataset.attributes);
  });
}

std::map<std::string, Hash> field_hashes(std::span<const GroupItems> units,
                                         const PartSource& source) {
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
    add_whole(field, units, source, hashes);
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
