#pragma once

#include <functional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "format/foreign/bytes.h"
#include "format/foreign/zip_directory.h"
#include "src/base/budget.h"
#include "src/base/buffer.h"

namespace rlreplay::foreign {

/// A zip archive, checked as hostile input: the directory and the local headers agree, members lie
/// one behind the other from byte 0 to the directory without overlap or hole, names are unique
/// relative paths, and every member's CRC is right.
/// Source: PKWARE, APPNOTE.TXT (.ZIP File Format Specification), 4.3.7 and 4.3.9.
class ZipArchive {
 public:
  struct Member {
    std::string_view name;
    Bytes content;
  };

  /// Called now and then with a part of the file that was read and is not needed soon.
  using Progress = std::function<void(Bytes)>;

  /// The archive keeps views into `file`, and holds itself what had to be inflated, all of it on
  /// one budget: that of `file` where none is given.
  /// Errors: kLimit, kCorrupt, kUnsupported (see read_zip_directory).
  explicit ZipArchive(Bytes file, Budget* budget = nullptr, const Progress& progress = {});

  const std::vector<Member>& members() const { return members_; }

  /// The member of this name or null.
  [[nodiscard]] const Member* find(std::string_view name) const;

 private:
  /// Replaces the stored bytes of `member` by its content, and checks the CRC.
  void read_content(const ZipEntry& entry, Member& member, Budget& budget,
                    const Progress& progress);

  std::vector<Member> members_;
  std::vector<Buffer<uint8_t>> inflated_;
  std::unordered_map<std::string_view, size_t> index_;
};

}  // namespace rlreplay::foreign
