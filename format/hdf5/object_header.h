#pragma once

#include <cstdint>
#include <vector>

#include "format/hdf5/file.h"

namespace rlreplay::format::h5 {

/// The kinds of message that an object's header may hold here.
enum class MessageType : uint8_t {
  kNil = 0x00,
  kDataspace = 0x01,
  kLinkInfo = 0x02,
  kDatatype = 0x03,
  kFillValue = 0x05,
  kLink = 0x06,
  kExternalFiles = 0x07,
  kLayout = 0x08,
  kGroupInfo = 0x0a,
  kFilters = 0x0b,
  kAttribute = 0x0c,
  kContinuation = 0x10,
  kAttributeInfo = 0x15,
  kReferenceCount = 0x16,
};

/// One message of a header, not decoded.
struct Message {
  MessageType type;
  Bytes body;
};

/// The messages of a header of version 2, continuations followed.
/// Errors: FormatError kContainer.
/// Source: HDF5 File Format Specification, version 3, "Version 2 Data Object Header
/// Prefix".
class ObjectHeader {
 public:
  ObjectHeader(File& file, uint64_t address);

  uint64_t address() const { return address_; }
  const std::vector<Message>& messages() const { return messages_; }
  /// That each message is one that a group, or else a dataset, has. Errors: kContainer.
  void expect_kind(bool group) const;
  /// The one message of a type; null where there is none.
  /// Errors: kContainer for two.
  [[nodiscard]] const Message* find(MessageType type) const;

 private:
  void add_messages(Cursor chunk, bool numbered);
  /// Nothing here reads it, but libhdf5 does, of every object that it opens.
  void check_reference_count() const;

  File& file_;
  uint64_t address_;
  std::vector<Message> messages_;
  std::vector<Bytes> continuations_;  // not followed yet
};

}  // namespace rlreplay::format::h5
