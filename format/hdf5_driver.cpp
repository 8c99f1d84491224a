#include "format/hdf5_driver.h"

#include <algorithm>
#include <new>

namespace rlreplay::format::h5 {
namespace {

struct Info {
  Outlet* outlet;
};

/// libhdf5 sees the first member only.
struct OpenFile {
  H5FD_t base;
  Outlet* outlet;
  haddr_t allocated;
};

OpenFile* own(H5FD_t* file) { return reinterpret_cast<OpenFile*>(file); }
const OpenFile* own(const H5FD_t* file) { return reinterpret_cast<const OpenFile*>(file); }

/// Runs `act` on the sink; no exception may cross libhdf5.
template <class Act>
herr_t guarded(Outlet& outlet, Act&& act) {
  if (outlet.error) return 0;
  try {
    act();
  } catch (...) {
    outlet.error = std::current_exception();
  }
  return 0;
}

H5FD_t* open(const char*, unsigned, hid_t access, haddr_t) {
  const auto* info = static_cast<const Info*>(H5Pget_driver_info(access));
  auto* file = info == nullptr ? nullptr : new (std::nothrow) OpenFile{};
  if (file == nullptr) return nullptr;
  file->outlet = info->outlet;
  return &file->base;
}

herr_t close(H5FD_t* file) {
  delete own(file);
  return 0;
}

herr_t query(const H5FD_t*, unsigned long* flags) {
  *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
           H5FD_FEAT_AGGREGATE_SMALLDATA;
  return 0;
}

haddr_t get_eoa(const H5FD_t* file, H5FD_mem_t) { return own(file)->allocated; }
herr_t set_eoa(H5FD_t* file, H5FD_mem_t, haddr_t end) {
  own(file)->allocated = end;
  return 0;
}
haddr_t get_eof(const H5FD_t* file, H5FD_mem_t) { return own(file)->outlet->end; }

herr_t read(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t at, size_t size, void* out) {
  Outlet& outlet = *own(file)->outlet;
  auto* bytes = static_cast<std::byte*>(out);
  std::fill_n(bytes, size, std::byte{0});
  if (at >= outlet.end) return 0;
  const auto there = static_cast<size_t>(std::min<uint64_t>(size, outlet.end - at));
  return guarded(outlet, [&] { outlet.sink->read(at, {bytes, there}); });
}

herr_t write(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t at, size_t size, const void* in) {
  Outlet& outlet = *own(file)->outlet;
  outlet.end = std::max<uint64_t>(outlet.end, at + size);
  return guarded(outlet, [&] {
    outlet.sink->write(at, {static_cast<const std::byte*>(in), size});
  });
}

/// The file ends where its last allocated byte does, written or not.
herr_t truncate(H5FD_t* file, hid_t, hbool_t) {
  Outlet& outlet = *own(file)->outlet;
  if (outlet.end == own(file)->allocated) return 0;
  outlet.end = own(file)->allocated;
  return guarded(outlet, [&] { outlet.sink->resize(outlet.end); });
}

H5FD_class_t driver_class() {
  H5FD_class_t driver = {};
  driver.name = "rlreplay";
  driver.maxaddr = (haddr_t{1} << 62);
  driver.fc_degree = H5F_CLOSE_STRONG;
  driver.fapl_size = sizeof(Info);
  driver.open = open;
  driver.close = close;
  driver.query = query;
  driver.get_eoa = get_eoa;
  driver.set_eoa = set_eoa;
  driver.get_eof = get_eof;
  driver.read = read;
  driver.write = write;
  driver.truncate = truncate;
  const H5FD_mem_t map[] = H5FD_FLMAP_DICHOTOMY;
  std::copy(std::begin(map), std::end(map), driver.fl_map);
  return driver;
}

}  // namespace

void use_outlet(hid_t access, Outlet* outlet) {
  static const H5FD_class_t kDriver = driver_class();
  // Once a process: the library keeps what is registered to its end.
  static const hid_t id = H5FDregister(&kDriver);
  const Info info{outlet};
  check(id >= 0 && H5Pset_driver(access, id, &info) >= 0, "HDF5 could not take a file driver");
}

}  // namespace rlreplay::format::h5
