#include "format/hdf5/object_header.h"

#include <string>

namespace rlreplay::format::h5 {
namespace {

constexpr size_t kMostMessages = 1 << 16;

bool is_known(uint64_t type) {
  switch (static_cast<MessageType>(type)) {
    case MessageType::kNil:
    case MessageType::kDataspace:
    case MessageType::kLinkInfo:
    case MessageType::kDatatype:
    case MessageType::kFillValue:
    case MessageType::kLink:
    case MessageType::kExternalFiles:
    case MessageType::kLayout:
    case MessageType::kGroupInfo:
    case MessageType::kFilters:
    case MessageType::kAttribute:
    case MessageType::kContinuation:
    case MessageType::kAttributeInfo:
    case MessageType::kReferenceCount:
      return true;
  }
  return false;
}

bool is_shareable(MessageType type) {
  return type == MessageType::kDataspace || type == MessageType::kDatatype ||
         type == MessageType::kFillValue || type == MessageType::kFilters ||
         type == MessageType::kAttribute;
}

/// Whose message it is.
enum class Kind { kAny, kGroup, kDataset };

Kind kind_of(MessageType type) {
  switch (type) {
    case MessageType::kLinkInfo:
    case MessageType::kLink:
    case MessageType::kGroupInfo:
      return Kind::kGroup;
    case MessageType::kDataspace:
    case MessageType::kDatatype:
    case MessageType::kFillValue:
    case MessageType::kExternalFiles:
    case MessageType::kLayout:
    case MessageType::kFilters:
      return Kind::kDataset;
    default:
      return Kind::kAny;
  }
}

}  // namespace

ObjectHeader::ObjectHeader(File& file, uint64_t address) : file_(file), address_(address) {
  constexpr uint64_t kSizeBits = 0x03, kNumbered = 0x04, kPhaseChange = 0x10, kTimes = 0x20;
  constexpr uint64_t kKnown = 0x3f;
  constexpr char kSignature[] = "OHDR";
  // A header says itself how long it is: that is read ahead, then the whole is taken and its
  // checksum compared.
  Cursor ahead = file.look_ahead(address);
  const size_t room = ahead.left();
  ahead.skip(sizeof kSignature - 1);
  ahead.expect(1, 2, "an object header of another version");
  const uint64_t flags = ahead.byte();
  file.expect_flags(flags, kKnown, "an object header with unknown flags");
  ahead.skip((flags & kTimes) != 0 ? 16 : 0);
  if ((flags & kPhaseChange) != 0) {
    const uint64_t compact = ahead.number(2), dense = ahead.number(2);
    file.expect(compact >= dense, "an object header that would keep its attributes nowhere");
  }
  const uint64_t size = ahead.number(size_t{1} << (flags & kSizeBits));
  const uint64_t prefix = room - ahead.left();
  file.expect_at_most(size, room, "an object header lies outside of the file");

  Cursor chunk = file.block(address, prefix + size + 4, kSignature);
  chunk.skip(prefix - (sizeof kSignature - 1));
  add_messages(chunk, (flags & kNumbered) != 0);
  // This ends: each continuation takes bytes of the file, which are counted (File::count).
  while (!continuations_.empty()) {
    Cursor place(continuations_.back(), file);
    continuations_.pop_back();
    const uint64_t at = place.address(), length = place.number(8);
    add_messages(file.block(at, length, "OCHK"), (flags & kNumbered) != 0);
  }
  check_reference_count();
}

void ObjectHeader::add_messages(Cursor chunk, bool numbered) {
  constexpr uint64_t kShared = 0x02, kWasUnknown = 0x20, kShareable = 0x40;
  const size_t header = numbered ? 6 : 4;
  bool has_room = false;
  while (chunk.left() >= header) {
    const uint64_t type = chunk.byte(), size = chunk.number(2), flags = chunk.byte();
    chunk.skip(numbered ? 2 : 0);
    const Message message{static_cast<MessageType>(type), chunk.bytes(size)};
    if (!is_known(type)) file_.refuse("a message of type " + std::to_string(type));
    file_.expect((flags & kShared) == 0, "a shared message");
    file_.expect((flags & kWasUnknown) == 0, "a message that its writer did not know");
    file_.expect((flags & kShareable) == 0 || is_shareable(message.type),
                 "a message that cannot be shared, with a flag that it can");
    has_room = has_room || message.type == MessageType::kNil;
    if (message.type == MessageType::kNil) continue;
    if (message.type == MessageType::kContinuation) {
      continuations_.push_back(message.body);
    } else {
      file_.expect(messages_.size() < kMostMessages, "an object header with too many messages");
      messages_.push_back(message);
    }
  }
  if (has_room) file_.expect_equal(chunk.left(), 0, "a gap in a header that has an empty message");
}

void ObjectHeader::check_reference_count() const {
  const Message* message = find(MessageType::kReferenceCount);
  if (message == nullptr) return;
  Cursor c(message->body, file_);
  c.expect(1, 0, "a reference count of another version");
  c.skip(4);
}

void ObjectHeader::expect_kind(bool group) const {
  for (const Message& message : messages_) {
    const auto kind = kind_of(message.type);
    file_.expect(
        kind == Kind::kAny || (kind == Kind::kGroup) == group,
        group ? "a group with a message of a dataset" : "a dataset with a message of a group");
  }
}

const Message* ObjectHeader::find(MessageType type) const {
  const Message* found = nullptr;
  for (const Message& message : messages_) {
    if (message.type != type) continue;
    file_.expect(found == nullptr, "two messages of a type of which there is one");
    found = &message;
  }
  return found;
}

}  // namespace rlreplay::format::h5
