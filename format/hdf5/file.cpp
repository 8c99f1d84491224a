#include "format/hdf5/file.h"

#include <algorithm>
#include <cstring>

#include "format/hdf5/lookup3.h"

namespace rlreplay::format::h5 {
namespace {

std::string at(uint64_t address) {
  return address == kNowhere ? "a structure that must be there"
                             : "the structure at byte " + std::to_string(address);
}

bool overlap(std::vector<Bytes>& all) {
  std::ranges::sort(all, {}, &Bytes::data);
  const auto shared = [](Bytes a, Bytes b) { return a.data() + a.size() > b.data(); };
  return std::ranges::adjacent_find(all, shared) != all.end();
}

constexpr char kOverlap[] = "structures overlap";

}  // namespace

void File::refuse(Rule rule, const std::string& what) const {
  throw FormatError(rule, what, where_, object_);
}

void File::cut(uint64_t size) {
  expect(size <= bytes_.size(), "the file is shorter than it says");
  bytes_ = bytes_.first(static_cast<size_t>(size));
}

void File::count(uint64_t size) {
  expect(size <= left_, kOverlap);
  left_ -= size;
}

void File::note_inner(Bytes object) {
  count(object.size());
  if (!object.empty()) inner_.push_back(object);
}

void File::expect_disjoint() { expect(!overlap(taken_) && !overlap(inner_), kOverlap); }

std::optional<Bytes> File::find(uint64_t address, uint64_t size) {
  if (address > bytes_.size() || size > bytes_.size() - address) return std::nullopt;
  count(size);
  const Bytes found = bytes_.subspan(static_cast<size_t>(address), static_cast<size_t>(size));
  if (size > 0) taken_.push_back(found);
  return found;
}

Bytes File::take(uint64_t address, uint64_t size) {
  const auto found = find(address, size);
  if (!found) refuse(at(address) + " lies outside of the file");
  return *found;
}

Cursor File::block(uint64_t address, uint64_t size, std::string_view signature) {
  constexpr size_t kChecksum = 4;
  const Bytes all = take(address, size);
  if (all.size() < signature.size() + kChecksum ||
      std::memcmp(all.data(), signature.data(), signature.size()) != 0) {
    refuse(at(address) + " does not begin with " + std::string(signature));
  }
  const Bytes content = all.first(all.size() - kChecksum);
  const uint64_t checksum = Cursor(all.last(kChecksum), *this).number(kChecksum);
  if (!has_checksum(content, checksum)) refuse(at(address) + " does not have its checksum");
  return {content.subspan(signature.size()), *this};
}

Cursor File::look_ahead(uint64_t address) const {
  if (address > bytes_.size()) refuse(at(address) + " lies outside of the file");
  return {bytes_.subspan(static_cast<size_t>(address)), *this};
}

Bytes Cursor::bytes(uint64_t count) {
  file_.expect(count <= bytes_.size(), "a structure ends early");
  const Bytes taken = bytes_.first(static_cast<size_t>(count));
  bytes_ = bytes_.subspan(taken.size());
  return taken;
}

uint64_t Cursor::number(size_t size) {
  const Bytes taken = bytes(size);
  uint64_t value = 0;
  std::memcpy(&value, taken.data(), taken.size());
  return value;
}

void Cursor::expect(size_t size, uint64_t value, const char* what) {
  file_.expect(number(size) == value, what);
}

}  // namespace rlreplay::format::h5
