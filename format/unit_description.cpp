#include "format/unit_description.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "format/codec.h"
#include "format/rule.h"
#include "src/base/printable.h"
#include "src/base/words.h"

namespace rlreplay::format {
namespace {

/// What the attributes of a unit's objects say. A fault leaves a default in its place.
class Description {
 public:
  Description(std::string dataset, uint64_t address, h5::Attributes attributes, Faults& faults)
      : dataset_(std::move(dataset)),
        address_(address),
        attributes_(std::move(attributes)),
        faults_(faults) {}

  /// Takes an attribute out: what is left in the end belongs to the content.
  template <class T>
  T take(const char* name) {
    const auto it = attributes_.find(name);
    if (it == attributes_.end() || !std::holds_alternative<T>(it->second)) {
      constexpr bool kText = std::is_same_v<T, std::string>;
      fault(Rule::kAttribute, std::string("the attribute \"") + name + "\" is " +
                                  (it == attributes_.end() ? "absent"
                                   : kText                 ? "numbers, expected a text"
                                                           : "a text, expected numbers"));
      return {};
    }
    T value = std::get<T>(std::move(it->second));
    attributes_.erase(it);
    return value;
  }

  Hash take_hash(const char* name) {
    const auto text = take<std::string>(name);
    const auto hash = Hash::from_hex(text);
    if (!hash) {
      fault(Rule::kAttribute, std::string("the attribute \"") + name + "\" is " + printable(text) +
                                  ", expected 32 hexadecimal digits");
    }
    return hash.value_or(Hash{});
  }

  DType take_dtype() {
    const auto text = take<std::string>("dtype");
    const auto dtype = dtype_from_string(text);
    if (!dtype) fault(Rule::kAttribute, "the dtype is " + printable(text) + ", which is none");
    return dtype.value_or(DType::kU8);
  }

  std::optional<Base> take_base() {
    const auto encoding = take<std::string>("encoding");
    if (encoding == "plain") return std::nullopt;
    if (encoding != "xor") {
      fault(Rule::kAttribute, "the encoding is " + printable(encoding) + ", expected plain or xor");
    }
    Base base{take<std::string>("base_unit"), take_hash("base_hash")};
    if (!sound_unit_path(base.unit)) {
      fault(Rule::kAttribute, "the base of the difference is in " + printable(base.unit) +
                                  ", expected the path of a unit");
    }
    return base;
  }

  void fault(Rule rule, const std::string& message) {
    faults_.add(rule, message, dataset_, address_);
  }
  h5::Attributes rest() { return std::move(attributes_); }

 private:
  std::string dataset_;
  uint64_t address_;  // of the object's header
  h5::Attributes attributes_;
  Faults& faults_;
};

std::string described(const h5::Element& element) {
  using Kind = h5::Element::Kind;
  const char* const kind = element.kind == Kind::kFloat      ? "floats"
                           : element.kind == Kind::kUnsigned ? "unsigned integers"
                                                             : "signed integers";
  return std::string(kind) + " of " + counted(element.size, "byte");
}

/// The groups of the datasets, sorted, each once.
std::vector<std::string> groups_of(const std::vector<StoredDataset>& datasets) {
  std::set<std::string> groups;
  for (const StoredDataset& d : datasets) groups.insert(d.path.substr(0, d.path.find('/')));
  return {groups.begin(), groups.end()};
}

std::string first_of(std::vector<std::string>::const_iterator group,
                     const std::vector<std::string>& groups) {
  return group == groups.end() ? "none" : *group;
}

}  // namespace

StoredDataset described(const h5::DatasetEntry& entry, Faults& faults) {
  const h5::Layout& layout = entry.layout;
  Description says(entry.path, entry.address, entry.attributes, faults);
  StoredDataset d;
  d.path = entry.path;
  if (!sound_dataset_path(d.path)) {
    says.fault(Rule::kObject, "a dataset outside a group: its path is " + printable(d.path) +
                                  ", expected GROUP/NAME");
  }
  d.dtype = says.take_dtype();
  d.shape = says.take<std::vector<uint64_t>>("shape");
  d.hash = says.take_hash("hash");
  d.base = says.take_base();
  d.attributes = says.rest();
  d.bytes = layout.bytes();
  if (const h5::Element expected = element_of(d.dtype); !(expected == layout.element)) {
    says.fault(Rule::kElement, "the elements are stored as " + described(layout.element) +
                                   ", expected " + described(expected) + " for the dtype " +
                                   std::string(to_string(d.dtype)));
  }
  if (const auto expected = elements_of(d.shape); expected != layout.count) {
    says.fault(Rule::kShape, std::to_string(layout.count) + " elements are stored, expected " +
                                 (expected ? std::to_string(*expected) : "more than there can be") +
                                 " by the shape");
  }
  if (layout.chunk > 0 && layout.shuffled != (layout.element.size > 1)) {
    says.fault(Rule::kLayout, "elements of " + counted(layout.element.size, "byte") + " are " +
                                  (layout.shuffled ? "shuffled, expected no shuffle"
                                                   : "not shuffled, expected shuffle and zstd"));
  }
  const size_t most = frame_bound(layout.chunk * layout.element.size);
  for (size_t i = 0; layout.chunk > 0 && i < entry.pieces.size(); ++i) {
    if (entry.pieces[i].size() <= most) continue;
    says.fault(Rule::kChunk, "the stored chunk " + std::to_string(i) + " has " +
                                 counted(entry.pieces[i].size(), "byte") +
                                 ", and zstd makes at most " + std::to_string(most) + " of it");
    break;
  }
  return d;
}

void check_root(const h5::Contents& contents, const std::string& path, Faults& faults) {
  Description says("/", contents.root_address, contents.root, faults);
  const auto expect = [&](bool sound, const char* name, const std::string& found,
                          const std::string& expected) {
    if (sound) return;
    says.fault(Rule::kAttribute, std::string("the unit's attribute \"") + name + "\" is " +
                                     printable(found) + ", expected " + expected);
  };
  const auto format = says.take<std::string>("format"), version = says.take<std::string>("version"),
             unit = says.take<std::string>("unit");
  expect(format == kFormat, "format", format, std::string(kFormat));
  expect(sound_version(version), "version", version, "at most " + this_version());
  expect(unit == path, "unit", unit, path);
}

uint64_t sum_of(const std::vector<StoredDataset>& datasets, uint64_t most, Faults& faults) {
  uint64_t sum = 0;
  for (const StoredDataset& d : datasets) {
    if (__builtin_add_overflow(sum, d.bytes, &sum) || sum > most) {
      faults.add(Rule::kDataLimit,
                 "the datasets up to this one decode to more than the " + counted(most, "byte") +
                     " that were announced or are allowed",
                 d.path);
      return sum;
    }
  }
  return sum;
}

void check_announced(const UnitRecord& record, const std::vector<StoredDataset>& datasets,
                     uint64_t size) {
  const auto differs = [&](const std::string& what, const std::string& found,
                           const std::string& announced) {
    return FormatError(Rule::kContent, what + " is " + found + "; its record says " + announced,
                       record.path);
  };
  const Hash content = content_of(datasets);
  if (content != record.content) {
    throw differs("the hash of its content", content.hex(), record.content.hex());
  }
  if (size != record.logical) {
    throw differs("its size, decoded,", std::to_string(size), std::to_string(record.logical));
  }
  const std::vector<std::string> groups = groups_of(datasets);
  const auto [found, named] =
      std::mismatch(groups.begin(), groups.end(), record.groups.begin(), record.groups.end());
  if (found == groups.end() && named == record.groups.end()) return;
  throw differs("the first group that differs", first_of(found, groups),
                first_of(named, record.groups));
}

}  // namespace rlreplay::format
