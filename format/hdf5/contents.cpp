#include <algorithm>
#include <cstring>
#include <set>

#include "format/checked_image.h"
#include "format/dataset.h"
#include "format/faults.h"
#include "format/hdf5/attributes.h"
#include "format/hdf5/links.h"
#include "format/hdf5/storage.h"
#include "format/hdf5/types.h"
#include "format/hdf5_file.h"
#include "format/rule.h"
#include "src/base/ascii.h"
#include "src/base/printable.h"
#include "src/base/words.h"

namespace rlreplay::format::h5 {
namespace {

constexpr size_t kMaxChunkBytes = 4 << 20;  // SPEC.md, "Storage"

bool sound_name(std::string_view name) {
  const auto allowed = [](char c) {
    return is_word_character(c) || c == '-' || c == '.' || c == '%';
  };
  return !name.empty() && name.size() <= 255 && name != "." && name != ".." &&
         std::all_of(name.begin(), name.end(), allowed);
}

/// A name in an error or a path: itself where it is sound.
std::string printed(const std::string& name) {
  return sound_name(name) ? name : link_name(name.substr(0, 100));
}

/// A datatype message in words: its class, as HDF5 numbers classes, and the size of an element.
std::string described_type(Bytes datatype) {
  if (datatype.size() < 8) return "a type that ends early";
  const auto byte = [&](size_t i) { return std::to_integer<uint32_t>(datatype[i]); };
  const uint32_t size = byte(4) | byte(5) << 8 | byte(6) << 16 | byte(7) << 24;
  return "HDF5's class " + std::to_string(byte(0) & 0x0f) + " of " + counted(size, "byte");
}

/// One walk over a file. What breaks a rule of objects or datasets is gathered; what is damaged or
/// would cost too much ends the walk.
class ObjectWalk {
 public:
  ObjectWalk(Bytes bytes, const Limits& limits, const std::string& where, Faults& faults)
      : file_(bytes, where), limits_(limits), faults_(faults) {}

  Contents run() {
    file_.look_at("/", 0);
    const uint64_t address = read_superblock();
    file_.look_at("/", address);
    contents_.root_address = address;
    seen_.insert(address);
    const ObjectHeader root(file_, address);
    file_.expect(root.find(MessageType::kLinkInfo) != nullptr, "the root is no group");
    root.expect_kind(true);
    contents_.root = take_attributes(root, "/");
    visit_links(root, "", 1);
    file_.look_at("/", address);
    file_.expect_disjoint();
    std::ranges::sort(contents_.datasets, {}, &DatasetEntry::path);
    return std::move(contents_);
  }

 private:
  uint64_t read_superblock();
  void visit_links(const ObjectHeader& group, const std::string& prefix, size_t depth);
  void visit_object(uint64_t address, const std::string& path, size_t depth);
  Attributes take_attributes(const ObjectHeader& object, const std::string& path);
  void add_dataset(const ObjectHeader& dataset, const std::string& path);
  std::optional<Storage> describe(const ObjectHeader& dataset, DatasetEntry& entry);
  void find_bytes(const Storage& storage, DatasetEntry& entry);

  File file_;
  const Limits& limits_;
  Faults& faults_;
  Contents contents_;
  std::set<uint64_t> seen_;  // addresses of objects
  size_t links_ = 0;
};

/// The address of the root group.
uint64_t ObjectWalk::read_superblock() {
  constexpr char kSignature[] = "\x89HDF\r\n\x1a\n";
  Cursor c = file_.block(0, 48, {kSignature, sizeof kSignature - 1});
  c.expect(1, 3, "a superblock of another version");
  c.expect(1, 8, "addresses of another size");
  c.expect(1, 8, "lengths of another size");
  c.expect(1, 0, "a file that was not closed");
  c.expect(8, 0, "a file with a user block");
  c.expect(8, kNowhere, "a superblock with an extension");
  file_.cut(c.number(8));
  return c.address();
}

void ObjectWalk::visit_links(const ObjectHeader& group, const std::string& prefix, size_t depth) {
  const std::vector<Link> links = links_of(file_, group, limits_.objects);
  links_ += links.size();
  if (links_ > limits_.objects)
    file_.refuse(Rule::kObjectLimit, counted(links_, "object") + " so far, expected at most " +
                                         std::to_string(limits_.objects));
  for (const Link& link : links) {
    const std::string path = prefix + printed(link.name);
    file_.look_at(path, group.address());
    if (!link.hard) {
      faults_.add(Rule::kObject, "a soft or external link, expected a hard one", path,
                  group.address());
    } else if (!sound_name(link.name)) {
      faults_.add(Rule::kObject,
                  "the name is " + printable(link.name) +
                      ", expected 1 to 100 letters, digits, `.`, `_` and `-`, no `.` first",
                  path, group.address());
    } else if (!seen_.insert(link.target).second) {
      faults_.add(Rule::kObject, "an object of two names, expected one", path, link.target);
    } else {
      visit_object(link.target, path, depth);
    }
  }
}

void ObjectWalk::visit_object(uint64_t address, const std::string& path, size_t depth) {
  file_.look_at(path, address);
  const ObjectHeader object(file_, address);
  if (object.find(MessageType::kLinkInfo) != nullptr) {
    object.expect_kind(true);
    if (depth >= limits_.depth) {
      file_.refuse(Rule::kObjectLimit, "a group on level " + std::to_string(depth + 1) +
                                           ", expected at most " + std::to_string(limits_.depth));
    }
    if (!take_attributes(object, path).empty()) {
      faults_.add(Rule::kAttribute, "a group has attributes; only the root may", path, address);
    }
    visit_links(object, path + "/", depth + 1);
  } else if (object.find(MessageType::kLayout) != nullptr) {
    object.expect_kind(false);
    add_dataset(object, path);
  } else {
    faults_.add(Rule::kObject, "an object of another kind, expected a group or a dataset", path,
                address);
  }
}

Attributes ObjectWalk::take_attributes(const ObjectHeader& object, const std::string& path) {
  Attributes all;
  for (NamedAttribute& attribute : attributes_of(file_, object, limits_)) {
    if (attribute.value) {
      all.emplace(std::move(attribute.name), std::move(*attribute.value));
    } else {
      faults_.add(Rule::kAttribute,
                  "the attribute \"" + printed(attribute.name) + "\" is neither text nor u64", path,
                  object.address());
    }
  }
  return all;
}

/// Puts the layout into the entry, as far as it is sound; nothing where no bytes can be looked for.
std::optional<Storage> ObjectWalk::describe(const ObjectHeader& dataset, DatasetEntry& entry) {
  const Message* type = dataset.find(MessageType::kDatatype);
  const Message* space = dataset.find(MessageType::kDataspace);
  const Message* filters = dataset.find(MessageType::kFilters);
  file_.expect(type != nullptr && space != nullptr, "a dataset without type or dataspace");
  if (const Message* fill = dataset.find(MessageType::kFillValue)) check_fill(fill->body, file_);
  Layout& layout = entry.layout;
  if (const auto element = element_of(type->body)) {
    layout.element = *element;
  } else {
    faults_.add(Rule::kElement,
                "elements are stored as " + described_type(type->body) +
                    ", expected little-endian integers or IEEE floats",
                entry.path, entry.address);
  }
  const Dataspace extent = dataspace_of(space->body, file_);
  const auto length = extent.length();
  if (!length) {
    faults_.add(Rule::kShape,
                "a dataset of " + counted(extent.extents.size(), "dimension") +
                    (extent.fixed ? "" : " that may grow") + ", expected one of fixed length",
                entry.path, entry.address);
    return std::nullopt;
  }
  if (*length > limits_.dataset_bytes / layout.element.size) {
    faults_.add(Rule::kDataLimit,
                "a dataset of " + counted(*length, "element") + " of " +
                    counted(layout.element.size, "byte") + "; this reader may take " +
                    counted(limits_.dataset_bytes, "byte"),
                entry.path, entry.address);
    return std::nullopt;
  }
  layout.count = *length;
  if (dataset.find(MessageType::kExternalFiles) != nullptr) {
    faults_.add(Rule::kLayout, "raw data in another file", entry.path, entry.address);
  }
  const auto storage = storage_of(dataset.find(MessageType::kLayout)->body, layout.element, file_);
  const bool chunked = storage && storage->kind != Storage::Kind::kContiguous;
  if (!storage || (chunked && (storage->chunk == 0 || layout.count == 0 ||
                               storage->chunk > kMaxChunkBytes / layout.element.size))) {
    faults_.add(Rule::kLayout,
                (chunked ? counted(layout.count, "element") + " in chunks of " +
                               std::to_string(storage->chunk)
                         : "another layout") +
                    std::string(", expected contiguous, or chunks of 1 to ") +
                    std::to_string(kMaxChunkBytes / layout.element.size) + " elements",
                entry.path, entry.address);
    return std::nullopt;
  }
  const auto shuffled =
      chunked && filters != nullptr ? shuffled_by(filters->body, layout.element, file_) : false;
  if (!shuffled || chunked != (filters != nullptr)) {
    faults_.add(Rule::kLayout,
                std::string(chunked ? "chunks with " : "a contiguous layout with ") +
                    (filters == nullptr ? "no filter"
                     : shuffled         ? "filters"
                                        : "filters other than zstd, or shuffle and zstd") +
                    (chunked ? ", expected zstd, or shuffle and zstd" : ", expected none"),
                entry.path, entry.address);
    return std::nullopt;
  }
  layout.chunk = storage->chunk;
  layout.shuffled = *shuffled;
  return storage;
}

void ObjectWalk::find_bytes(const Storage& storage, DatasetEntry& entry) {
  const uint64_t bytes = entry.layout.bytes();
  if (storage.kind != Storage::Kind::kContiguous) {
    Chunks chunks = chunks_of(file_, storage, entry.layout);
    if (!chunks.fault.empty()) {
      return faults_.add(Rule::kChunk, chunks.fault, entry.path, entry.address);
    }
    entry.pieces = std::move(chunks.pieces);
  } else if (bytes == 0) {
    if (storage.size == 0 && storage.address == kNowhere) return;
    faults_.add(Rule::kLayout,
                "a contiguous dataset without elements names " + counted(storage.size, "byte") +
                    ", expected no place and 0",
                entry.path, entry.address);
  } else {
    const auto piece = storage.size == bytes ? file_.find(storage.address, bytes) : std::nullopt;
    if (!piece) {
      return faults_.add(Rule::kLayout,
                         "a contiguous dataset stores " + counted(storage.size, "byte") +
                             ", expected " + std::to_string(bytes) +
                             (storage.size == bytes ? "; they do not lie in the file" : ""),
                         entry.path, entry.address);
    }
    entry.pieces.push_back(*piece);
  }
}

void ObjectWalk::add_dataset(const ObjectHeader& dataset, const std::string& path) {
  DatasetEntry entry{path, dataset.address(), {}, take_attributes(dataset, path), {}};
  if (const auto storage = describe(dataset, entry)) find_bytes(*storage, entry);
  contents_.datasets.push_back(std::move(entry));
}

}  // namespace

Contents contents_of(const CheckedImage& image, const Limits& limits, const std::string& where,
                     Faults& faults) {
  constexpr char kSignature[] = "\x89HDF\r\n\x1a\n\x03";  // the last byte: superblock version 3
  constexpr size_t kSmallest = 48;
  const Bytes bytes = image.bytes();
  if (bytes.size() < kSmallest || std::memcmp(bytes.data(), kSignature, 9) != 0) {
    const std::string_view front(reinterpret_cast<const char*>(bytes.data()),
                                 std::min<size_t>(bytes.size(), 9));
    throw FormatError(Rule::kSignature,
                      "the file of " + counted(bytes.size(), "byte") + " begins with " +
                          printable(front) +
                          ", expected HDF5's signature, a superblock of "
                          "version 3 and at least " +
                          std::to_string(kSmallest) + " bytes",
                      where, {}, 0);
  }
  return ObjectWalk(bytes, limits, where, faults).run();
}

}  // namespace rlreplay::format::h5
