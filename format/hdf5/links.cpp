#include "format/hdf5/links.h"

#include <algorithm>

#include "format/hdf5/dense.h"
#include "src/base/printable.h"

namespace rlreplay::format::h5 {
namespace {

Bytes name_of(Cursor& c, uint64_t flags) { return c.bytes(c.number(size_t{1} << (flags & 0x03))); }

std::string link_text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Link link_of(Bytes message, const File& file) {
  constexpr uint64_t kOrder = 0x04, kType = 0x08, kCharacters = 0x10, kKnown = 0x1f;
  Cursor c(message, file);
  c.expect(1, 1, "a link of another version");
  const uint64_t flags = c.byte();
  file.expect_flags(flags, kKnown, "a link with unknown flags");
  const bool hard = (flags & kType) == 0 || c.byte() == 0;
  c.skip((flags & kOrder) != 0 ? 8 : 0);
  if ((flags & kCharacters) != 0) file.expect_at_most(c.byte(), 1, "a name in unknown characters");
  Link link{link_text(name_of(c, flags)), hard, kNowhere};
  if (hard) link.target = c.address();
  return link;
}

/// The links in the heap that the message names.
void add_dense(File& file, Bytes info, size_t most, std::vector<Link>& links) {
  constexpr size_t kId = 7;
  // A record by name: the name's checksum, id.
  constexpr DenseForm kForm = {"link information of another version than 0",
                               "two indices of links that do not agree",
                               8,
                               RecordType::kLinkName,
                               RecordType::kLinkOrder,
                               4 + kId,
                               8 + kId,
                               4,
                               kId,
                               0};
  visit_dense(file, info, kForm, most, [&](Bytes object, Bytes) {
    links.push_back(link_of(object, file));
    return links.back().name;
  });
}

/// Checks the message that tells a writer when to move links to a heap: no reader needs it.
void check_group_info(Bytes info, const File& file) {
  constexpr uint64_t kPhaseChange = 0x01, kEstimates = 0x02;
  Cursor c(info, file);
  c.expect(1, 0, "group information of another version");
  const uint64_t flags = c.byte();
  file.expect_flags(flags, kPhaseChange | kEstimates, "group information with unknown flags");
  c.skip(((flags & kPhaseChange) != 0 ? 4 : 0) + ((flags & kEstimates) != 0 ? 4 : 0));
}

}  // namespace

std::vector<Link> links_of(File& file, const ObjectHeader& group, size_t most) {
  std::vector<Link> links;
  for (const Message& message : group.messages()) {
    if (message.type == MessageType::kLink) links.push_back(link_of(message.body, file));
  }
  if (const Message* info = group.find(MessageType::kLinkInfo)) {
    add_dense(file, info->body, most, links);
  }
  if (const Message* info = group.find(MessageType::kGroupInfo)) {
    check_group_info(info->body, file);
  }
  std::ranges::sort(links, {}, &Link::name);
  const auto twice = std::ranges::adjacent_find(links, {}, &Link::name);
  if (twice != links.end()) file.refuse("two links of one name, " + printable(twice->name));
  return links;
}

}  // namespace rlreplay::format::h5
