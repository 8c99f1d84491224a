#include "bench/hdf5_pipeline.h"

#include <algorithm>
#include <cstdlib>

#include <fcntl.h>
#include <hdf5.h>
#include <unistd.h>

#include "format/codec.h"
#include "format/hdf5_ids.h"
#include "src/base/buffer.h"
#include "src/base/descriptor.h"
#include "src/base/error.h"

namespace rlreplay::bench {
namespace {

using format::h5::Id;
using format::h5::kZstdFilter;

void require(bool done, const char* what) {
  if (!done) throw Error(ErrorCode::kEnvironment, std::string("HDF5 could not ") + what);
}

size_t replace_buffer(void** buffer, size_t* capacity, void* fresh, size_t room, size_t used) {
  std::free(*buffer);
  *buffer = fresh;
  *capacity = room;
  return used;
}

size_t filter(unsigned flags, size_t, const unsigned* parameters, size_t bytes, size_t* capacity,
              void** buffer) {
  const std::span<const std::byte> in(static_cast<const std::byte*>(*buffer), bytes);
  const bool reverse = (flags & H5Z_FLAG_REVERSE) != 0;
  const size_t room = reverse ? format::announced_size(in) : format::frame_bound(bytes);
  auto* out = static_cast<std::byte*>(std::malloc(room));
  if (out == nullptr) return 0;
  if (!reverse) {
    static thread_local format::ChunkEncoder encoder(static_cast<int>(parameters[0]));
    return replace_buffer(buffer, capacity, out, room, encoder.encode(in, {out, room}));
  }
  static thread_local format::ChunkDecoder decoder;
  if (decoder.decode(in, {out, room}) == format::FrameFault::kNone) {
    return replace_buffer(buffer, capacity, out, room, room);
  }
  std::free(out);
  return 0;
}

hid_t type_of(DType dtype) {
  switch (size_of(dtype)) {
    case 1:
      return H5T_STD_U8LE;
    case 2:
      return H5T_STD_U16LE;
    case 4:
      return H5T_STD_U32LE;
    default:
      return H5T_STD_U64LE;
  }
}

std::string link_of(std::string path) {
  for (char& c : path) c = c == '/' ? '_' : c;
  return path;
}

void write_one(hid_t file, const format::Dataset& d, const format::Packing& packing) {
  const hsize_t count = d.bytes.size() / size_of(d.dtype);
  const hsize_t chunk = std::min<hsize_t>(count, packing.chunk_bytes / size_of(d.dtype));
  const unsigned level = static_cast<unsigned>(packing.level);
  const Id properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_fill_time(properties.get(), H5D_FILL_TIME_NEVER);
  H5Pset_chunk(properties.get(), 1, &chunk);
  if (size_of(d.dtype) > 1) H5Pset_shuffle(properties.get());
  H5Pset_filter(properties.get(), kZstdFilter, H5Z_FLAG_MANDATORY, 1, &level);
  const Id space(H5Screate_simple(1, &count, nullptr), H5Sclose);
  const Id dataset(H5Dcreate2(file, link_of(d.path).c_str(), type_of(d.dtype), space.get(),
                              H5P_DEFAULT, properties.get(), H5P_DEFAULT),
                   H5Dclose);
  require(
      H5Dwrite(dataset.get(), type_of(d.dtype), H5S_ALL, H5S_ALL, H5P_DEFAULT, d.bytes.data()) >= 0,
      "write a dataset");
  const Hash hash = hash_of(d.bytes);
  const hsize_t two = 2;
  const Id hash_space(H5Screate_simple(1, &two, nullptr), H5Sclose);
  const Id attribute(
      H5Acreate2(dataset.get(), "hash", H5T_STD_U64LE, hash_space.get(), H5P_DEFAULT, H5P_DEFAULT),
      H5Aclose);
  require(H5Awrite(attribute.get(), H5T_STD_U64LE, &hash) >= 0, "write a hash");
}

}  // namespace

void register_zstd() {
  static const H5Z_class2_t kFilter = {H5Z_CLASS_T_VERS, kZstdFilter, 1,       1,
                                       "zstd",           nullptr,     nullptr, filter};
  require(H5Zregister(&kFilter) >= 0, "register a filter");
}

void pipeline_write(const std::string& path, const std::vector<format::Dataset>& datasets,
                    const format::Packing& packing) {
  const Id access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_libver_bounds(access.get(), H5F_LIBVER_V110, H5F_LIBVER_V110);
  Id file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), H5Fclose);
  require(static_cast<bool>(file), "make a file");
  for (const format::Dataset& d : datasets) write_one(file.get(), d, packing);
  require(file.reset(), "close a file");
  const Descriptor written(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  require(written && ::fsync(written.get()) == 0, "make a file durable");
}

void pipeline_read(const std::string& path, const std::vector<format::Dataset>& datasets) {
  const Id file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
  require(static_cast<bool>(file), "open a file");
  for (const format::Dataset& d : datasets) {
    Buffer<std::byte> out(d.bytes.size());
    const Id dataset(H5Dopen2(file.get(), link_of(d.path).c_str(), H5P_DEFAULT), H5Dclose);
    require(
        H5Dread(dataset.get(), type_of(d.dtype), H5S_ALL, H5S_ALL, H5P_DEFAULT, out.data()) >= 0,
        "read a dataset");
    Hash want;
    const Id attribute(H5Aopen(dataset.get(), "hash", H5P_DEFAULT), H5Aclose);
    require(H5Aread(attribute.get(), H5T_STD_U64LE, &want) >= 0, "read a hash");
    require(hash_of({out.data(), out.size()}) == want, "give back the values");
  }
}

}  // namespace rlreplay::bench
