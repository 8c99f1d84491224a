#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

#include "format/checked_image.h"
#include "format/faults.h"
#include "format/hdf5_ids.h"
#include "format/rule.h"

namespace rlreplay::format::h5 {
namespace {

constexpr size_t kMaxChunkBytes = 4 << 20;

// The file driver of libhdf5 that keeps a file in memory would copy the image twice; these let it
// read ours in place. The file is opened read-only, so nothing writes through the pointer.
struct Borrowed {
  void* image;
};

void* lend(size_t, H5FD_file_image_op_t, void* borrowed) {
  return static_cast<Borrowed*>(borrowed)->image;
}
void* lend_copy(void* to, const void*, size_t, H5FD_file_image_op_t, void*) { return to; }
void* refuse_growth(void*, size_t, H5FD_file_image_op_t, void*) { return nullptr; }
herr_t keep_image(void*, H5FD_file_image_op_t, void*) { return 0; }
void* keep_udata(void* borrowed) { return borrowed; }
herr_t release_udata(void*) { return 0; }

Id open_in_place(Borrowed* borrowed, size_t size) {
  Id access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5FD_file_image_callbacks_t callbacks = {lend,       lend_copy,     refuse_growth, keep_image,
                                           keep_udata, release_udata, borrowed};
  const bool set = access && H5Pset_fapl_core(access.get(), 1 << 20, false) >= 0 &&
                   H5Pset_file_image_callbacks(access.get(), &callbacks) >= 0 &&
                   H5Pset_file_image(access.get(), borrowed->image, size) >= 0 &&
                   H5Pset_fclose_degree(access.get(), H5F_CLOSE_STRONG) >= 0;
  check(set, "HDF5 could not set up a file in memory");
  return {H5Fopen(name_of(borrowed).c_str(), H5F_ACC_RDONLY, access.get()), H5Fclose};
}

std::optional<Element> element_of(hid_t type) {
  for (const auto kind :
       {Element::Kind::kSigned, Element::Kind::kUnsigned, Element::Kind::kFloat}) {
    for (const size_t size : {1, 2, 4, 8}) {
      const Element element{kind, size};
      const hid_t known = type_of(element);
      if (known >= 0 && H5Tequal(type, known) > 0) return element;
    }
  }
  return std::nullopt;
}

struct Name {
  std::string text;
  bool hard;
};

/// Collects the links of one group; no exception may cross libhdf5.
struct Names {
  std::vector<Name> names;
  size_t limit;
  bool overflow = false;
};

herr_t collect_link(hid_t, const char* name, const H5L_info_t* info, void* out) {
  auto* all = static_cast<Names*>(out);
  if (all->names.size() >= all->limit) {
    all->overflow = true;
    return 1;
  }
  all->names.push_back({name, info->type == H5L_TYPE_HARD});
  return 0;
}

herr_t collect_attribute(hid_t, const char* name, const H5A_info_t*, void* out) {
  auto* all = static_cast<Names*>(out);
  if (all->names.size() >= all->limit) {
    all->overflow = true;
    return 1;
  }
  all->names.push_back({name, true});
  return 0;
}

bool sound_name(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.' || c == '%';
  };
  return !name.empty() && name.size() <= 255 && name != "." && name != ".." &&
         std::all_of(name.begin(), name.end(), allowed);
}

/// One walk over a file. What breaks a rule of objects or datasets is gathered; what libhdf5 cannot
/// read and what would cost too much ends the walk.
class Walk {
 public:
  Walk(std::span<const std::byte> image, const Limits& limits, const std::string& where,
       Faults& faults)
      : image_(image), limits_(limits), where_(where), faults_(faults) {}

  Contents run(hid_t root) {
    contents_.root = attributes_of(root, "/");
    visit_group(root, "", 1);
    std::sort(contents_.datasets.begin(), contents_.datasets.end(),
              [](const auto& a, const auto& b) { return a.path < b.path; });
    return std::move(contents_);
  }

 private:
  FormatError error(Rule rule, const std::string& what, const std::string& object) const {
    return {rule, what, where_, object};
  }
  bool first_visit(hid_t object, const std::string& path);
  void visit_group(hid_t group, const std::string& prefix, size_t depth);
  void visit_link(hid_t group, const Name& name, const std::string& path, size_t depth);
  Attributes attributes_of(hid_t object, const std::string& path);
  std::optional<Attribute> attribute_of(hid_t object, const std::string& name,
                                        const std::string& path);
  void add_dataset(hid_t dataset, const std::string& path);
  Layout layout_of(hid_t dataset, const std::string& path);
  void read_filters(hid_t creation, Layout& layout, const std::string& path);
  void find_contiguous(hid_t dataset, DatasetEntry& entry);
  void find_chunks(hid_t dataset, DatasetEntry& entry);
  std::optional<std::span<const std::byte>> piece(haddr_t begin, hsize_t size) const;

  std::span<const std::byte> image_;
  const Limits& limits_;
  const std::string& where_;
  Faults& faults_;
  Contents contents_;
  std::set<haddr_t> seen_;
};

/// False for an object that was reached before: a cycle would never end, and a second name has no
/// meaning here.
bool Walk::first_visit(hid_t object, const std::string& path) {
  H5O_info_t info;
  if (H5Oget_info(object, &info) < 0) throw error(Rule::kContainer, "HDF5 cannot read it", path);
  if (!seen_.insert(info.addr).second) {
    faults_.add(Rule::kObject, "an object has two names", path);
    return false;
  }
  if (seen_.size() > limits_.objects) throw error(Rule::kObjectLimit, "too many objects", path);
  return true;
}

void Walk::visit_group(hid_t group, const std::string& prefix, size_t depth) {
  if (!first_visit(group, prefix.empty() ? "/" : prefix)) return;
  if (!prefix.empty() && !attributes_of(group, prefix).empty()) {
    faults_.add(Rule::kAttribute, "a group has attributes; only the root may", prefix);
  }
  Names names{{}, limits_.objects};
  const herr_t done = H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, nullptr, collect_link, &names);
  if (names.overflow) throw error(Rule::kObjectLimit, "too many objects", prefix);
  if (done < 0) throw error(Rule::kContainer, "HDF5 cannot read the links of a group", prefix);
  for (const Name& name : names.names) {
    visit_link(group, name, prefix.empty() ? name.text : prefix + "/" + name.text, depth);
  }
}

void Walk::visit_link(hid_t group, const Name& name, const std::string& path, size_t depth) {
  if (!name.hard) return faults_.add(Rule::kObject, "a link that is not a hard link", path);
  if (!sound_name(name.text)) faults_.add(Rule::kObject, "a name outside the grammar", path);
  Id object(H5Oopen(group, name.text.c_str(), H5P_DEFAULT), H5Oclose);
  if (!object) throw error(Rule::kContainer, "HDF5 cannot open it", path);
  const H5I_type_t type = H5Iget_type(object.get());
  if (type == H5I_GROUP) {
    if (depth >= limits_.depth) throw error(Rule::kObjectLimit, "groups nest too deep", path);
    visit_group(object.get(), path, depth + 1);
  } else if (type == H5I_DATASET) {
    if (first_visit(object.get(), path)) add_dataset(object.get(), path);
  } else {
    faults_.add(Rule::kObject, "neither a group nor a dataset", path);
  }
}

Attributes Walk::attributes_of(hid_t object, const std::string& path) {
  Names names{{}, limits_.attributes};
  const herr_t done =
      H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_INC, nullptr, collect_attribute, &names);
  if (names.overflow) throw error(Rule::kObjectLimit, "too many attributes", path);
  if (done < 0) throw error(Rule::kContainer, "HDF5 cannot read the attributes", path);
  Attributes all;
  for (const Name& name : names.names) {
    auto value = attribute_of(object, name.text, path);
    if (value) {
      all[name.text] = std::move(*value);
    } else {
      faults_.add(Rule::kAttribute, "the attribute \"" + name.text + "\" is neither text nor u64",
                  path);
    }
  }
  return all;
}

/// Nothing when it is of a type that no attribute has.
std::optional<Attribute> Walk::attribute_of(hid_t object, const std::string& name,
                                            const std::string& path) {
  Id attribute(H5Aopen(object, name.c_str(), H5P_DEFAULT), H5Aclose);
  if (!attribute) throw error(Rule::kContainer, "HDF5 cannot open an attribute", path);
  Id type(H5Aget_type(attribute.get()), H5Tclose);
  Id space(H5Aget_space(attribute.get()), H5Sclose);
  if (!type || !space) throw error(Rule::kContainer, "HDF5 cannot describe an attribute", path);
  const hssize_t count = H5Sget_simple_extent_npoints(space.get());
  const size_t size = H5Tget_size(type.get());
  if (size > limits_.attribute_bytes ||
      (count > 0 &&
       static_cast<size_t>(count) > limits_.attribute_bytes / std::max<size_t>(1, size))) {
    throw error(Rule::kObjectLimit, "an attribute is too large", path);
  }
  if (H5Tget_class(type.get()) == H5T_STRING && H5Tis_variable_str(type.get()) == 0 && count == 1 &&
      size > 0 && H5Sget_simple_extent_type(space.get()) == H5S_SCALAR) {
    std::string text(size, '\0');
    if (H5Aread(attribute.get(), type.get(), text.data()) < 0) {
      throw error(Rule::kContainer, "HDF5 cannot read an attribute", path);
    }
    text.resize(std::min(text.find('\0'), text.size()));
    return text;
  }
  if (H5Tequal(type.get(), H5T_STD_U64LE) <= 0 || count < 0) return std::nullopt;
  std::vector<uint64_t> numbers(static_cast<size_t>(count));
  if (count > 0 && H5Aread(attribute.get(), H5T_STD_U64LE, numbers.data()) < 0) {
    throw error(Rule::kContainer, "HDF5 cannot read an attribute", path);
  }
  return numbers;
}

void Walk::read_filters(hid_t creation, Layout& layout, const std::string& path) {
  const int count = H5Pget_nfilters(creation);
  std::vector<H5Z_filter_t> filters;
  for (int i = 0; i < std::min(count, 3); ++i) {
    unsigned flags = 0, config = 0;
    size_t values = 0;
    filters.push_back(H5Pget_filter2(creation, static_cast<unsigned>(i), &flags, &values, nullptr,
                                     0, nullptr, &config));
  }
  layout.shuffled = filters == std::vector<H5Z_filter_t>{H5Z_FILTER_SHUFFLE, kZstdFilter};
  if (!layout.shuffled && filters != std::vector<H5Z_filter_t>{kZstdFilter}) {
    faults_.add(Rule::kLayout, "filters other than zstd, or shuffle and zstd", path);
  }
}

/// The layout as far as it is sound: without chunks where they are not.
Layout Walk::layout_of(hid_t dataset, const std::string& path) {
  Id type(H5Dget_type(dataset), H5Tclose);
  Id space(H5Dget_space(dataset), H5Sclose);
  Id creation(H5Dget_create_plist(dataset), H5Pclose);
  if (!type || !space || !creation) {
    throw error(Rule::kContainer, "HDF5 cannot describe a dataset", path);
  }
  const auto element = element_of(type.get());
  if (!element) faults_.add(Rule::kElement, "a stored type that is not in the list", path);
  Layout layout{element.value_or(Element{}), 0, 0, false};
  hsize_t extent = 0, most = 0;
  if (H5Sget_simple_extent_ndims(space.get()) != 1 ||
      H5Sget_simple_extent_dims(space.get(), &extent, &most) != 1 || extent != most) {
    faults_.add(Rule::kShape, "a dataset that is not one-dimensional and of fixed length", path);
    return layout;
  }
  if (extent > limits_.dataset_bytes / layout.element.size) {
    faults_.add(Rule::kDataLimit, "a dataset is larger than this reader may take", path);
    extent = 0;
  }
  layout.count = extent;
  if (H5Pget_external_count(creation.get()) != 0) {
    faults_.add(Rule::kLayout, "raw data in another file", path);
  }
  const H5D_layout_t kind = H5Pget_layout(creation.get());
  if (kind == H5D_CONTIGUOUS) return layout;
  hsize_t chunk = 0;
  if (kind != H5D_CHUNKED || H5Pget_chunk(creation.get(), 1, &chunk) != 1 || chunk == 0 ||
      chunk > kMaxChunkBytes / layout.element.size || extent == 0) {
    faults_.add(Rule::kLayout, "a layout that is neither contiguous nor sound chunks", path);
    return layout;
  }
  layout.chunk = chunk;
  read_filters(creation.get(), layout, path);
  return layout;
}

std::optional<std::span<const std::byte>> Walk::piece(haddr_t begin, hsize_t size) const {
  if (begin == HADDR_UNDEF || begin > image_.size() || size > image_.size() - begin) return {};
  return image_.subspan(static_cast<size_t>(begin), static_cast<size_t>(size));
}

void Walk::find_contiguous(hid_t dataset, DatasetEntry& entry) {
  const uint64_t bytes = entry.layout.bytes();
  if (bytes == 0) return;
  const auto stored = piece(H5Dget_offset(dataset), bytes);
  if (H5Dget_storage_size(dataset) == bytes && stored) {
    entry.pieces.push_back(*stored);
  } else {
    faults_.add(Rule::kLayout, "a contiguous dataset without its bytes", entry.path);
  }
}

/// Every chunk is there: a hole would read as whatever the reader's memory held.
void Walk::find_chunks(hid_t dataset, DatasetEntry& entry) {
  Id space(H5Dget_space(dataset), H5Sclose);  // 1.10 does not take H5S_ALL here
  hsize_t count = 0;
  if (H5Dget_num_chunks(dataset, space.get(), &count) < 0 || count != entry.layout.chunks()) {
    return faults_.add(Rule::kChunk, "stored chunks are missing", entry.path);
  }
  entry.pieces.reserve(count);
  for (hsize_t i = 0; i < count; ++i) {
    const hsize_t offset = i * entry.layout.chunk;
    unsigned mask = 0;
    haddr_t address = HADDR_UNDEF;
    hsize_t size = 0;
    const bool found = H5Dget_chunk_info_by_coord(dataset, &offset, &mask, &address, &size) >= 0;
    const auto stored = found && size > 0 ? piece(address, size) : std::nullopt;
    if (!stored || mask != 0) {
      return faults_.add(Rule::kChunk, "a stored chunk is absent, or not filtered as it must be",
                         entry.path);
    }
    entry.pieces.push_back(*stored);
  }
}

void Walk::add_dataset(hid_t dataset, const std::string& path) {
  DatasetEntry entry{path, layout_of(dataset, path), attributes_of(dataset, path), {}};
  if (entry.layout.chunk > 0) {
    find_chunks(dataset, entry);
  } else {
    find_contiguous(dataset, entry);
  }
  contents_.datasets.push_back(std::move(entry));
}

}  // namespace

Contents contents_of(const CheckedImage& image, const Limits& limits, const std::string& where,
                     Faults& faults) {
  constexpr char kSignature[] = "\x89HDF\r\n\x1a\n\x03";  // the last byte: superblock version 3
  constexpr size_t kSmallest = 48;
  const std::span<const std::byte> bytes = image.bytes();
  if (bytes.size() < kSmallest || std::memcmp(bytes.data(), kSignature, 9) != 0) {
    throw FormatError(Rule::kSignature, "not an HDF5 file with a superblock of version 3", where);
  }
  prepare_library();
  const Turn turn;
  Borrowed borrowed{const_cast<std::byte*>(bytes.data())};
  Id file = open_in_place(&borrowed, bytes.size());
  if (!file) throw FormatError(Rule::kContainer, "HDF5 cannot open the file", where);
  Id root(H5Gopen2(file.get(), "/", H5P_DEFAULT), H5Gclose);
  if (!root) throw FormatError(Rule::kContainer, "HDF5 cannot open the root group", where, "/");
  return Walk(bytes, limits, where, faults).run(root.get());
}

}  // namespace rlreplay::format::h5
