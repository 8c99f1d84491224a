#include "format/checked_image.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "format/ordered_hash.h"
#include "format/rule.h"

namespace rlreplay::format {
namespace {

constexpr size_t kReadPiece = size_t{1} << 19;  // that one thread reads at a time

void check_hash(const Hash& found, const Hash& wanted, const std::string& path) {
  if (found == wanted) return;
  throw FormatError(Rule::kUnitHash,
                    "the stored bytes are not those that were written: they hash to " +
                        found.hex() + ", expected " + wanted.hex(),
                    path);
}

}  // namespace

Buffer<std::byte> SpareBuffer::take() {
  std::lock_guard lock(mutex_);
  return std::exchange(buffer_, {});
}

void SpareBuffer::give(Buffer<std::byte> buffer) {
  constexpr size_t kMost = size_t{64} << 20;  // beyond, the memory is worth more than the time
  if (buffer.size() > kMost) return;
  std::lock_guard lock(mutex_);
  if (buffer.size() > buffer_.size()) buffer_.swap(buffer);
}

CheckedImage::CheckedImage(Buffer<std::byte> bytes, uint64_t size, const Hash& hash,
                           const std::string& path)
    : bytes_(std::move(bytes)) {
  if (bytes_.size() != size) {
    throw FormatError(
        Rule::kUnitSize,
        "the file has " + std::to_string(bytes_.size()) + " bytes, not " + std::to_string(size),
        path, {}, std::min<uint64_t>(bytes_.size(), size));
  }
  check_hash(hash_of(this->bytes()), hash, path);
}

CheckedImage::~CheckedImage() {
  if (spare_) spare_->give(std::move(bytes_));
}

CheckedImage CheckedImage::read(const OpenFile& file, const Hash& hash, ThreadPool& pool,
                                std::shared_ptr<SpareBuffer> spare, uint64_t most_held) {
  if (file.size > most_held) {
    check(file, hash, pool);
    return CheckedImage(FileMapping(file.file.get(), static_cast<size_t>(file.size), file.path));
  }
  Buffer<std::byte> bytes = spare->take();
  bytes.resize(static_cast<size_t>(file.size));
  OrderedHash found(bytes, kReadPiece);
  pool.run(static_cast<int64_t>((bytes.size() + kReadPiece - 1) / kReadPiece),
           [&](int64_t item, int) {
             const size_t begin = static_cast<size_t>(item) * kReadPiece;
             file.read(begin, {bytes.data() + begin, std::min(kReadPiece, bytes.size() - begin)});
             found.add(static_cast<size_t>(item));
           });
  check_hash(found.finish(), hash, file.path);
  return CheckedImage(std::move(bytes), std::move(spare));
}

void CheckedImage::check(const OpenFile& file, const Hash& hash, ThreadPool& pool) {
  constexpr size_t kRoom = 8 * kReadPiece;
  Buffer<std::byte> now(kRoom), before(kRoom);
  size_t there = 0;
  Hasher hasher;
  // One item of each job hashes what the job before has read.
  for (uint64_t first = 0; first < file.size; first += kRoom) {
    const auto count = static_cast<size_t>(std::min<uint64_t>(kRoom, file.size - first));
    pool.run(static_cast<int64_t>((count + kReadPiece - 1) / kReadPiece) + 1,
             [&](int64_t item, int) {
               if (item == 0) return hasher.update({before.data(), there});
               const size_t begin = static_cast<size_t>(item - 1) * kReadPiece;
               file.read(first + begin, {now.data() + begin, std::min(kReadPiece, count - begin)});
             });
    there = count;
    now.swap(before);
  }
  hasher.update({before.data(), there});
  check_hash(hasher.finish(), hash, file.path);
}

std::span<const std::byte> CheckedImage::fetch(std::span<const std::byte> part,
                                               std::span<std::byte> room) const {
  if (!is_mapped()) return part;
  std::memcpy(room.data(), part.data(), part.size());
  release(part);
  return room.first(part.size());
}

void CheckedImage::release(std::span<const std::byte> part) const {
  // A fault maps what the page cache holds around its address (fault-around), a large page at most.
  constexpr size_t kAround = size_t{2} << 20;
  const std::span<const std::byte> all = mapping_.bytes();
  if (all.empty() || part.empty()) return;
  const auto begin = static_cast<size_t>(part.data() - all.data());
  const size_t end = std::min(begin + part.size() + kAround, all.size());
  const size_t first = begin - std::min(begin, kAround);
  mapping_.release(all.subspan(first, end - first));
}

}  // namespace rlreplay::format
