#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "format/rule.h"

namespace rlreplay::format::h5 {

using Bytes = std::span<const std::byte>;

/// The address of what is not there.
inline constexpr uint64_t kNowhere = UINT64_MAX;

class Cursor;

/// found_text() of a number, or of kNowhere; `how`: "at most " of a bound.
[[nodiscard]] std::string number_found(const char* what, uint64_t found, uint64_t expected,
                                       std::string_view how = {});

/// A file in memory, of which blocks are handed out by address. In a sound file no two blocks
/// overlap, and what lies in a block of a heap is counted once more, so that all of it together is
/// no more than twice the file: a walk that asks for more goes in circles and is refused. This
/// bounds time and memory of everything that is read from here.
/// Source (of all of this folder): HDF5 File Format Specification, version 3, of The HDF Group.
class File {
 public:
  /// `where` is what errors name, beside the object at hand.
  File(Bytes bytes, std::string where)
      : bytes_(bytes), left_(2 * uint64_t{bytes.size()}), where_(std::move(where)) {}

  /// Errors from here on name this object, and its header's address where they know no better;
  /// where that lies outside of the file, the one before.
  void look_at(std::string object, uint64_t address) {
    object_ = std::move(object);
    if (address < bytes_.size()) address_ = address;
  }
  /// Throws FormatError.
  [[noreturn]] void refuse(Rule rule, const std::string& what) const {
    refuse_at(address_, rule, what);
  }
  [[noreturn]] void refuse(const std::string& what) const { refuse(Rule::kContainer, what); }
  /// Throws FormatError for what begins at this address.
  [[noreturn]] void refuse_at(uint64_t address, Rule rule, const std::string& what) const;
  /// The address in the file of a byte that was handed out.
  uint64_t address_of(const std::byte* byte) const {
    return static_cast<uint64_t>(byte - bytes_.data());
  }
  /// Refuses what is not so. Where one number decides, the next three say it.
  void expect(bool condition, const char* what) const {
    if (!condition) refuse(what);
  }
  /// Refuses every number but one.
  void expect_equal(uint64_t found, uint64_t expected, const char* what) const {
    if (found != expected) refuse(number_found(what, found, expected));
  }
  void expect_at_most(uint64_t found, uint64_t most, const char* what) const {
    if (found > most) refuse(number_found(what, found, most, "at most "));
  }
  /// Refuses flags with other bits than the `known` ones.
  void expect_flags(uint64_t flags, uint64_t known, const char* what) const {
    if ((flags & ~known) != 0) refuse(number_found(what, flags, known, "no bits beside "));
  }

  /// Makes the file end after `size` bytes. Errors: kContainer where it is shorter.
  void cut(uint64_t size);

  /// Takes note of an object within a block that was handed out. Errors: kContainer for more bytes
  /// than there can be.
  void note_inner(Bytes object);
  /// That no two structures that were handed out share a byte, and no two objects within them.
  void expect_disjoint();
  /// Hands out a block; nothing where it does not lie in the file. Errors: as of `note_inner`.
  [[nodiscard]] std::optional<Bytes> find(uint64_t address, uint64_t size);
  /// Hands out a block. Errors: as of `find`; also for a block outside of the file.
  Bytes take(uint64_t address, uint64_t size);
  /// What a block holds between its signature (where it has one) and the checksum at its end, which
  /// is compared. Errors: also for another signature or checksum.
  Cursor block(uint64_t address, uint64_t size, std::string_view signature);
  /// All from an address on, of which nothing counts as handed out: to find a block's size.
  Cursor look_ahead(uint64_t address) const;

 private:
  void count(uint64_t size);

  Bytes bytes_;
  std::vector<Bytes> taken_, inner_;
  uint64_t left_;  // bytes that may still be handed out
  std::string where_, object_;
  uint64_t address_ = 0;  // of the object
};

/// Reads one value after another.
class Cursor {
 public:
  Cursor(Bytes bytes, const File& file) : bytes_(bytes), file_(file) {}

  size_t left() const { return bytes_.size(); }
  /// Errors (also of the others): kContainer where fewer bytes are left.
  Bytes bytes(uint64_t count);
  void skip(uint64_t count) { bytes(count); }
  /// A little-endian number of 1 to 8 bytes.
  uint64_t number(size_t size);
  uint64_t byte() { return number(1); }
  uint64_t address() { return number(8); }
  /// A number that can only have this value.
  void expect(size_t size, uint64_t value, const char* what);

 private:
  Bytes bytes_;
  const File& file_;
};

}  // namespace rlreplay::format::h5
