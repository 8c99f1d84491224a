#include "format/hdf5/links.h"

#include <algorithm>

#include "format/hdf5/b_tree.h"
#include "format/hdf5/fractal_heap.h"
#include "format/hdf5/lookup3.h"

namespace rlreplay::format::h5 {
namespace {

Bytes name_of(Cursor& c, uint64_t flags) { return c.bytes(c.number(size_t{1} << (flags & 0x03))); }

std::string text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Link link_of(Bytes message, const File& file) {
  constexpr uint64_t kOrder = 0x04, kType = 0x08, kCharacters = 0x10;
  Cursor c(message, file);
  c.expect(1, 1, "a link of another version than 1");
  const uint64_t flags = c.byte();
  const bool hard = (flags & kType) == 0 || c.byte() == 0;
  c.skip(((flags & kOrder) != 0 ? 8 : 0) + ((flags & kCharacters) != 0 ? 1 : 0));
  Link link{text_of(name_of(c, flags)), hard, kNowhere};
  if (hard) link.target = c.address();
  return link;
}

/// The links in the heap that the message names.
void add_dense(File& file, Bytes info, size_t most, std::vector<Link>& links) {
  constexpr uint64_t kOrder = 0x01;
  constexpr size_t kRecord = 4 + 7;  // the name's checksum and the id
  Cursor c(info, file);
  c.expect(1, 0, "link information of another version than 0");
  c.skip((c.byte() & kOrder) != 0 ? 8 : 0);
  const uint64_t heap_address = c.address(), tree = c.address();
  if (heap_address == kNowhere) return;
  FractalHeap heap(file, heap_address);
  for (const Bytes record : records_of(file, tree, RecordType::kLinkName, kRecord, most)) {
    links.push_back(link_of(heap.object(record.last(7)), file));
    const std::string& name = links.back().name;
    file.expect(has_checksum(std::as_bytes(std::span(name)), Cursor(record, file).number(4)),
                "a link's name does not have its checksum");
  }
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
  std::ranges::sort(links, {}, &Link::name);
  file.expect(std::ranges::adjacent_find(links, {}, &Link::name) == links.end(),
              "two links of one name");
  return links;
}

}  // namespace rlreplay::format::h5
