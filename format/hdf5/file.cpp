#include "format/hdf5/file.h"

#include <algorithm>
#include <cstring>

#include "format/hdf5/lookup3.h"
#include "src/base/found_text.h"
#include "src/base/number_text.h"

namespace rlreplay::format::h5 {
namespace {

std::string at(uint64_t address) {
  return address == kNowhere ? "a structure that must be there"
                             : "the structure at byte " + std::to_string(address);
}

/// Sorts blocks by address and returns the first byte that a block shares with the one before it;
/// null where none does.
const std::byte* overlap(std::vector<Bytes>& all) {
  std::ranges::sort(all, {}, &Bytes::data);
  const auto shared = [](Bytes a, Bytes b) { return a.data() + a.size() > b.data(); };
  const auto found = std::ranges::adjacent_find(all, shared);
  return found == all.end() ? nullptr : std::next(found)->data();
}

constexpr char kOverlap[] = "structures overlap";

std::string number_text(uint64_t value) {
  return value == kNowhere ? "none" : std::to_string(value);
}

}  // namespace

std::string number_found(const char* what, uint64_t found, uint64_t expected,
                         std::string_view how) {
  return found_text(what, number_text(found), std::string(how) + number_text(expected));
}

void File::refuse_at(uint64_t address, Rule rule, const std::string& what) const {
  const bool inside = address <= bytes_.size();
  throw FormatError(rule, what, where_, object_, inside ? std::optional(address) : std::nullopt);
}

void File::cut(uint64_t size) {
  expect_at_most(size, bytes_.size(), "the file is shorter than it says");
  bytes_ = bytes_.first(static_cast<size_t>(size));
}

/// As much as each byte twice, in a structure and in an object within it: structures that name each
/// other in a circle end here, and overlaps are looked for once all is read.
void File::count(uint64_t size) {
  expect(size <= left_, kOverlap);
  left_ -= size;
}

void File::note_inner(Bytes object) {
  count(object.size());
  if (!object.empty()) inner_.push_back(object);
}

void File::expect_disjoint() {
  for (std::vector<Bytes>* all : {&taken_, &inner_}) {
    if (const std::byte* shared = overlap(*all)) {
      refuse_at(address_of(shared), Rule::kContainer, kOverlap);
    }
  }
}

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
    refuse_at(address, Rule::kContainer,
              at(address) + " does not begin with " + std::string(signature));
  }
  const Bytes content = all.first(all.size() - kChecksum);
  const uint64_t checksum = Cursor(all.last(kChecksum), *this).number(kChecksum);
  if (!has_checksum(content, checksum)) {
    refuse_at(address, Rule::kContainer,
              at(address) + " has the checksum " + hex(lookup3(content), 8) + ", expected " +
                  hex(checksum, 8));
  }
  return {content.subspan(signature.size()), *this};
}

Cursor File::look_ahead(uint64_t address) const {
  if (address > bytes_.size()) refuse(at(address) + " lies outside of the file");
  return {bytes_.subspan(static_cast<size_t>(address)), *this};
}

Bytes Cursor::bytes(uint64_t count) {
  if (count > bytes_.size()) {
    file_.refuse_at(file_.address_of(bytes_.data()), Rule::kContainer,
                    number_found("a structure ends early", bytes_.size(), count));
  }
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
  const std::byte* const at = bytes_.data();
  const uint64_t found = number(size);
  if (found == value) return;
  file_.refuse_at(file_.address_of(at), Rule::kContainer, number_found(what, found, value));
}

}  // namespace rlreplay::format::h5
