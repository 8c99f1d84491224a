#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>
#include <set>

#include <sys/mman.h>

#include "format/hdf5_driver.h"
#include "format/hdf5_file.h"
#include "format/hdf5_ids.h"
#include "format/libraries.h"

namespace rlreplay::format::h5 {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian, uncopied");

void require(bool done, const char* what) {
  if (!done) throw Error(ErrorCode::kInternal, std::string("HDF5 could not ") + what);
}

Id access_to(Outlet* outlet) {
  Id access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  require(access && H5Pset_libver_bounds(access.get(), H5F_LIBVER_V110, H5F_LIBVER_V110) >= 0 &&
              H5Pset_fclose_degree(access.get(), H5F_CLOSE_STRONG) >= 0,
          "set up the access to a file");
  use_outlet(access.get(), outlet);
  return access;
}

Id timeless(hid_t kind) {
  Id properties(H5Pcreate(kind), H5Pclose);
  require(properties && H5Pset_obj_track_times(properties.get(), false) >= 0,
          "turn object times off");
  return properties;
}

void put_text(hid_t object, const std::string& name, const std::string& text) {
  Id type(H5Tcopy(H5T_C_S1), H5Tclose);
  require(type && H5Tset_size(type.get(), std::max<size_t>(1, text.size())) >= 0 &&
              H5Tset_strpad(type.get(), H5T_STR_NULLPAD) >= 0 &&
              H5Tset_cset(type.get(), H5T_CSET_UTF8) >= 0,
          "make the type of a text");
  Id space(H5Screate(H5S_SCALAR), H5Sclose);
  Id attribute(H5Acreate2(object, name.c_str(), type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT),
               H5Aclose);
  require(attribute && H5Awrite(attribute.get(), type.get(), text.c_str()) >= 0,
          "write an attribute");
}

void put_numbers(hid_t object, const std::string& name, const std::vector<uint64_t>& numbers) {
  const hsize_t count = numbers.size();
  Id space(count == 0 ? H5Screate(H5S_NULL) : H5Screate_simple(1, &count, nullptr), H5Sclose);
  Id attribute(
      H5Acreate2(object, name.c_str(), H5T_STD_U64LE, space.get(), H5P_DEFAULT, H5P_DEFAULT),
      H5Aclose);
  require(static_cast<bool>(attribute), "make an attribute");
  require(count == 0 || H5Awrite(attribute.get(), H5T_STD_U64LE, numbers.data()) >= 0,
          "write an attribute");
}

void put_attribute(hid_t object, const std::string& name, const Attribute& value) {
  if (const auto* text = std::get_if<std::string>(&value)) {
    put_text(object, name, *text);
  } else {
    put_numbers(object, name, std::get<std::vector<uint64_t>>(value));
  }
}

/// The predefined type of an element.
hid_t type_of(const Element& element) {
  const auto pick = [&](hid_t one, hid_t two, hid_t four, hid_t eight) {
    return element.size == 1 ? one : element.size == 2 ? two : element.size == 4 ? four : eight;
  };
  switch (element.kind) {
    case Element::Kind::kSigned:
      return pick(H5T_STD_I8LE, H5T_STD_I16LE, H5T_STD_I32LE, H5T_STD_I64LE);
    case Element::Kind::kUnsigned:
      return pick(H5T_STD_U8LE, H5T_STD_U16LE, H5T_STD_U32LE, H5T_STD_U64LE);
    case Element::Kind::kFloat:
      return pick(-1, -1, H5T_IEEE_F32LE, H5T_IEEE_F64LE);
  }
  return -1;
}

/// Whoever calls libhdf5 has its turn and room: it crashes where an allocation of its own fails,
/// and one call needs far less than this.
class Call {
 public:
  Call() {
    constexpr size_t kRoom = size_t{16} << 20;
    void* room = ::mmap(nullptr, kRoom, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) throw std::bad_alloc();
    ::munmap(room, kRoom);
  }

 private:
  Turn turn_;
};

/// libhdf5 prints its errors, searches folders for plugins and tidies up when the process exits,
/// which crashes where memory ran out within it, unless it is told otherwise. Called before any
/// other call; takes effect once.
void prepare_library() {
  const Call call;
  H5dont_atexit();
  H5open();
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  H5PLset_loading_state(0);
}

}  // namespace

struct Builder::State {
  int level = 1;
  Outlet outlet;
  Id access;
  Id group_properties;
  std::set<std::string> groups;
  Id file;
  Id dataset;
  Layout layout;

  ~State() {  // of a file that is given up: whoever wants it has closed both in `finish`
    static_cast<void>(dataset.reset());
    static_cast<void>(file.reset());
  }

  void make_groups(const std::string& path);
};

void Builder::State::make_groups(const std::string& path) {
  for (size_t slash = path.find('/'); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    const std::string group = path.substr(0, slash);
    if (!groups.insert(group).second) continue;
    Id id(H5Gcreate2(file.get(), group.c_str(), H5P_DEFAULT, group_properties.get(), H5P_DEFAULT),
          H5Gclose);
    require(static_cast<bool>(id), "make a group");
  }
}

Builder::Builder(int level, Sink& sink) : state_(std::make_unique<State>()) {
  prepare_library();
  const Call call;
  state_->outlet.sink = &sink;
  state_->level = level;
  state_->access = access_to(&state_->outlet);
  state_->group_properties = timeless(H5P_GROUP_CREATE);
  const Id creation = timeless(H5P_FILE_CREATE);
  state_->file = Id(
      H5Fcreate(name_of(state_.get()).c_str(), H5F_ACC_TRUNC, creation.get(), state_->access.get()),
      H5Fclose);
  require(static_cast<bool>(state_->file), "make a file");
}
Builder::~Builder() = default;
Builder::Builder(Builder&&) noexcept = default;

void Builder::root_attribute(const std::string& name, const Attribute& value) {
  const Call call;
  Id root(H5Gopen2(state_->file.get(), "/", H5P_DEFAULT), H5Gclose);
  require(static_cast<bool>(root), "open the root group");
  put_attribute(root.get(), name, value);
}

void Builder::begin(const std::string& path, const Layout& layout, const Attributes& attributes) {
  const Call call;
  state_->make_groups(path);
  Id creation = timeless(H5P_DATASET_CREATE);
  require(H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER) >= 0, "turn fill values off");
  if (layout.chunk > 0) {
    const hsize_t chunk = layout.chunk;
    const unsigned level = static_cast<unsigned>(state_->level);
    require(H5Pset_chunk(creation.get(), 1, &chunk) >= 0, "set the size of chunks");
    if (layout.shuffled) require(H5Pset_shuffle(creation.get()) >= 0, "record the shuffle filter");
    // Optional for libhdf5, which never runs it here and so need not have it.
    require(H5Pset_filter(creation.get(), kZstdFilter, H5Z_FLAG_OPTIONAL, 1, &level) >= 0,
            "record the zstd filter");
  }
  const hsize_t count = layout.count;
  Id space(H5Screate_simple(1, &count, nullptr), H5Sclose);
  state_->dataset = Id(H5Dcreate2(state_->file.get(), path.c_str(), type_of(layout.element),
                                  space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT),
                       H5Dclose);
  require(static_cast<bool>(state_->dataset), "make a dataset");
  state_->layout = layout;
  for (const auto& [name, value] : attributes) put_attribute(state_->dataset.get(), name, value);
}

void Builder::write(std::span<const std::byte> bytes) {
  const Call call;
  require(bytes.size() == state_->layout.bytes(), "write a part of a dataset");
  if (bytes.empty()) return;
  require(H5Dwrite(state_->dataset.get(), type_of(state_->layout.element), H5S_ALL, H5S_ALL,
                   H5P_DEFAULT, bytes.data()) >= 0,
          "write a dataset");
}

void Builder::write_chunk(uint64_t index, std::span<const std::byte> frame) {
  const Call call;
  const hsize_t offset = index * state_->layout.chunk;
  require(H5Dwrite_chunk(state_->dataset.get(), H5P_DEFAULT, 0, &offset, frame.size(),
                         frame.data()) >= 0,
          "write a chunk");
  state_->outlet.rethrow();
}

uint64_t Builder::finish() {
  const Call call;
  require(state_->dataset.reset(), "close a dataset");
  require(state_->file.reset(), "close a file");
  state_->outlet.rethrow();
  return state_->outlet.end;
}

}  // namespace rlreplay::format::h5

std::string rlreplay::format::hdf5_version() {
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release);
}
