#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

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

}  // namespace

struct View::State {
  Borrowed borrowed{};
  std::string where;
  Limits limits;
  Id file;
  Attributes root;
  std::vector<DatasetEntry> datasets;
  std::vector<Id> open;  // parallel to datasets
  std::set<haddr_t> seen;

  ~State() {
    open.clear();
    file.reset();
  }

  FormatError error(Rule rule, const std::string& what, const std::string& object) const {
    return {rule, what, where, object};
  }
  void walk(hid_t group, const std::string& prefix, size_t depth);
  void see_object(hid_t object, const std::string& path);
  Attributes attributes_of(hid_t object, const std::string& path) const;
  Attribute attribute_of(hid_t object, const std::string& name, const std::string& path) const;
  void add_dataset(Id dataset, const std::string& path);
  Layout layout_of(hid_t dataset, const std::string& path) const;
  void read_filters(hid_t creation, Layout& layout, const std::string& path) const;
  void check_chunks(hid_t dataset, const Layout& layout, const std::string& path) const;
};

/// No object is reached twice: a cycle would never end, and a second name has no meaning here.
void View::State::see_object(hid_t object, const std::string& path) {
  H5O_info_t info;
  if (H5Oget_info(object, &info) < 0) throw error(Rule::kContainer, "HDF5 cannot read it", path);
  if (!seen.insert(info.addr).second) {
    throw error(Rule::kObject, "an object has two names", path);
  }
  if (seen.size() > limits.objects) throw error(Rule::kLimit, "too many objects", path);
}

void View::State::walk(hid_t group, const std::string& prefix, size_t depth) {
  see_object(group, prefix.empty() ? "/" : prefix);
  if (!prefix.empty() && !attributes_of(group, prefix).empty()) {
    throw error(Rule::kAttribute, "a group has attributes; only the root may", prefix);
  }
  Names names{{}, limits.objects};
  const herr_t done = H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, nullptr, collect_link, &names);
  if (names.overflow) throw error(Rule::kLimit, "too many objects", prefix);
  if (done < 0) throw error(Rule::kContainer, "HDF5 cannot read the links of a group", prefix);
  for (const Name& name : names.names) {
    const std::string path = prefix.empty() ? name.text : prefix + "/" + name.text;
    if (!name.hard) throw error(Rule::kObject, "a link that is not a hard link", path);
    if (!sound_name(name.text)) throw error(Rule::kObject, "a name outside the grammar", path);
    Id object(H5Oopen(group, name.text.c_str(), H5P_DEFAULT), H5Oclose);
    if (!object) throw error(Rule::kContainer, "HDF5 cannot open it", path);
    const H5I_type_t type = H5Iget_type(object.get());
    if (type == H5I_GROUP) {
      if (depth >= limits.depth) throw error(Rule::kLimit, "groups nest too deep", path);
      walk(object.get(), path, depth + 1);
    } else if (type == H5I_DATASET) {
      see_object(object.get(), path);
      add_dataset(std::move(object), path);
    } else {
      throw error(Rule::kObject, "neither a group nor a dataset", path);
    }
  }
}

Attributes View::State::attributes_of(hid_t object, const std::string& path) const {
  constexpr size_t kMost = 32;
  Names names{{}, kMost};
  const herr_t done =
      H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_INC, nullptr, collect_attribute, &names);
  if (names.overflow) throw error(Rule::kLimit, "too many attributes", path);
  if (done < 0) throw error(Rule::kContainer, "HDF5 cannot read the attributes", path);
  Attributes all;
  for (const Name& name : names.names) all[name.text] = attribute_of(object, name.text, path);
  return all;
}

Attribute View::State::attribute_of(hid_t object, const std::string& name,
                                    const std::string& path) const {
  Id attribute(H5Aopen(object, name.c_str(), H5P_DEFAULT), H5Aclose);
  if (!attribute) throw error(Rule::kContainer, "HDF5 cannot open an attribute", path);
  Id type(H5Aget_type(attribute.get()), H5Tclose);
  Id space(H5Aget_space(attribute.get()), H5Sclose);
  if (!type || !space) throw error(Rule::kContainer, "HDF5 cannot describe an attribute", path);
  const hssize_t count = H5Sget_simple_extent_npoints(space.get());
  const size_t size = H5Tget_size(type.get());
  const auto too_large = [&](size_t n) { return n > limits.attribute_bytes; };
  if (H5Tget_class(type.get()) == H5T_STRING && H5Tis_variable_str(type.get()) == 0 && count == 1 &&
      size > 0 && H5Sget_simple_extent_type(space.get()) == H5S_SCALAR) {
    if (too_large(size)) throw error(Rule::kLimit, "an attribute is too large", path);
    std::string text(size, '\0');
    if (H5Aread(attribute.get(), type.get(), text.data()) < 0) {
      throw error(Rule::kContainer, "HDF5 cannot read an attribute", path);
    }
    text.resize(std::min(text.find('\0'), text.size()));
    return text;
  }
  if (H5Tequal(type.get(), H5T_STD_U64LE) <= 0 || count < 0) {
    throw error(Rule::kAttribute, "the attribute \"" + name + "\" is neither text nor u64", path);
  }
  if (too_large(static_cast<size_t>(count))) {
    throw error(Rule::kLimit, "an attribute is too large", path);
  }
  std::vector<uint64_t> numbers(static_cast<size_t>(count));
  if (count > 0 && H5Aread(attribute.get(), H5T_STD_U64LE, numbers.data()) < 0) {
    throw error(Rule::kContainer, "HDF5 cannot read an attribute", path);
  }
  return numbers;
}

void View::State::read_filters(hid_t creation, Layout& layout, const std::string& path) const {
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
    throw error(Rule::kLayout, "filters other than zstd, or shuffle and zstd", path);
  }
}

Layout View::State::layout_of(hid_t dataset, const std::string& path) const {
  Id type(H5Dget_type(dataset), H5Tclose);
  Id space(H5Dget_space(dataset), H5Sclose);
  Id creation(H5Dget_create_plist(dataset), H5Pclose);
  if (!type || !space || !creation) {
    throw error(Rule::kContainer, "HDF5 cannot describe a dataset", path);
  }
  const auto element = element_of(type.get());
  if (!element) throw error(Rule::kElement, "a stored type that is not in the list", path);
  hsize_t extent = 0, most = 0;
  if (H5Sget_simple_extent_ndims(space.get()) != 1 ||
      H5Sget_simple_extent_dims(space.get(), &extent, &most) != 1 || extent != most) {
    throw error(Rule::kShape, "a dataset that is not one-dimensional and of fixed length", path);
  }
  Layout layout{*element, extent, 0, false};
  if (extent > limits.dataset_bytes / layout.element.size) {
    throw error(Rule::kLimit, "a dataset is larger than the limit", path);
  }
  if (H5Pget_external_count(creation.get()) != 0) {
    throw error(Rule::kLayout, "raw data in another file", path);
  }
  const H5D_layout_t kind = H5Pget_layout(creation.get());
  if (kind == H5D_CONTIGUOUS) return layout;
  hsize_t chunk = 0;
  if (kind != H5D_CHUNKED || H5Pget_chunk(creation.get(), 1, &chunk) != 1 || chunk == 0 ||
      chunk > kMaxChunkBytes / layout.element.size || extent == 0) {
    throw error(Rule::kLayout, "a layout that is neither contiguous nor sound chunks", path);
  }
  layout.chunk = chunk;
  read_filters(creation.get(), layout, path);
  return layout;
}

/// Every chunk is there: a hole would read as whatever the reader's memory held.
void View::State::check_chunks(hid_t dataset, const Layout& layout, const std::string& path) const {
  Id space(H5Dget_space(dataset), H5Sclose);  // 1.10 does not take H5S_ALL here
  hsize_t stored = 0;
  if (H5Dget_num_chunks(dataset, space.get(), &stored) < 0 || stored != layout.chunks()) {
    throw error(Rule::kChunk, "stored chunks are missing", path);
  }
}

void View::State::add_dataset(Id dataset, const std::string& path) {
  DatasetEntry entry{path, layout_of(dataset.get(), path), attributes_of(dataset.get(), path)};
  if (entry.layout.chunk > 0) {
    check_chunks(dataset.get(), entry.layout, path);
  } else if (H5Dget_storage_size(dataset.get()) != entry.layout.bytes()) {
    throw error(Rule::kLayout, "a contiguous dataset without its bytes", path);
  }
  datasets.push_back(std::move(entry));
  open.push_back(std::move(dataset));
}

View::View(std::unique_ptr<State> state) : state_(std::move(state)) {}
View::~View() = default;
View::View(View&&) noexcept = default;
View& View::operator=(View&&) noexcept = default;

View View::open(std::span<const std::byte> image, const Limits& limits, std::string where) {
  constexpr char kSignature[] = "\x89HDF\r\n\x1a\n\x03";  // the last byte: superblock version 3
  constexpr size_t kSmallest = 48;
  if (image.size() < kSmallest || std::memcmp(image.data(), kSignature, 9) != 0) {
    throw FormatError(Rule::kSignature, "not an HDF5 file with a superblock of version 3", where);
  }
  prepare_library();
  const Turn turn;
  auto state = std::make_unique<State>();
  state->where = std::move(where);
  state->limits = limits;
  state->borrowed.image = const_cast<std::byte*>(image.data());
  state->file = open_in_place(&state->borrowed, image.size());
  if (!state->file) throw state->error(Rule::kContainer, "HDF5 cannot open the file", "");
  Id root(H5Gopen2(state->file.get(), "/", H5P_DEFAULT), H5Gclose);
  if (!root) throw state->error(Rule::kContainer, "HDF5 cannot open the root group", "/");
  state->root = state->attributes_of(root.get(), "/");
  state->walk(root.get(), "", 1);
  return View(std::move(state));
}

const Attributes& View::root_attributes() const { return state_->root; }
const std::vector<DatasetEntry>& View::datasets() const { return state_->datasets; }

void View::read(size_t dataset, std::span<std::byte> out) const {
  const Turn turn;
  const DatasetEntry& entry = state_->datasets[dataset];
  check(out.size() == entry.layout.bytes() && entry.layout.chunk == 0, "wrong buffer for a read");
  if (out.empty()) return;
  if (H5Dread(state_->open[dataset].get(), type_of(entry.layout.element), H5S_ALL, H5S_ALL,
              H5P_DEFAULT, out.data()) < 0) {
    throw state_->error(Rule::kContainer, "HDF5 cannot read a dataset", entry.path);
  }
}

size_t View::read_chunk(size_t dataset, uint64_t index, std::span<std::byte> out) const {
  const Turn turn;
  const DatasetEntry& entry = state_->datasets[dataset];
  const hid_t id = state_->open[dataset].get();
  const hsize_t offset = index * entry.layout.chunk;
  hsize_t size = 0;
  if (H5Dget_chunk_storage_size(id, &offset, &size) < 0 || size == 0 || size > out.size()) {
    throw state_->error(Rule::kChunk, "a stored chunk is absent or too large", entry.path);
  }
  uint32_t mask = 0;
  if (H5Dread_chunk(id, H5P_DEFAULT, &offset, &mask, out.data()) < 0 || mask != 0) {
    throw state_->error(Rule::kChunk, "a stored chunk cannot be read as it must be", entry.path);
  }
  return static_cast<size_t>(size);
}

}  // namespace rlreplay::format::h5
