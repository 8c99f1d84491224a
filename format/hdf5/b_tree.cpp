#include "format/hdf5/b_tree.h"

#include <bit>

namespace rlreplay::format::h5 {
namespace {

constexpr size_t kFrame = 4 + 1 + 1 + 4;  // of a node: signature, version, type, checksum
// 200,000 records need 4, in nodes of libhdf5's size that are half full.
constexpr size_t kMaxDepth = 4;
// So that the counts below stay under 2^63: a node has at most 2^16 / 11 records.
constexpr uint64_t kMaxNode = 1 << 16;

/// Bytes of a number that can be as large as `most`.
size_t width_of(uint64_t most) { return (static_cast<size_t>(std::bit_width(most)) + 7) / 8; }

/// The size of a pointer to a child, by the child's depth above the leaves: an address, the number
/// of its records, and above the leaves that of all below it too.
std::vector<size_t> pointer_sizes(const File& file, uint64_t node, size_t record, size_t depth) {
  uint64_t total = (node - kFrame) / record;
  const size_t count = width_of(total);
  std::vector<size_t> sizes;
  for (size_t level = 0; level < depth; ++level) {
    sizes.push_back(8 + count + (level == 0 ? 0 : width_of(total)));
    file.expect(node > kFrame + sizes.back() + record, "a B-tree of nodes without room");
    const uint64_t most = (node - kFrame - sizes.back()) / (record + sizes.back());
    total = (most + 1) * total + most;
  }
  return sizes;
}

struct Node {
  uint64_t address, records;
  size_t level;  // above the leaves
};

}  // namespace

std::vector<Bytes> records_of(File& file, uint64_t address, RecordType type, size_t size,
                              size_t most) {
  const auto kind = static_cast<uint64_t>(type);
  constexpr char kOther[] = "a B-tree of another kind";
  Cursor header = file.block(address, 38, "BTHD");
  header.expect(1, 0, kOther);
  header.expect(1, kind, kOther);
  const uint64_t node_size = header.number(4);
  header.expect(2, size, kOther);
  const uint64_t depth = header.number(2);
  header.skip(2);
  const Node root{header.address(), header.number(2), static_cast<size_t>(depth)};
  const uint64_t total = header.number(8);
  file.expect(node_size >= kFrame + size && node_size <= kMaxNode && depth <= kMaxDepth,
              "a B-tree of an odd size");
  file.expect(total <= most, "a B-tree with too many records");
  std::vector<Bytes> found;
  if (root.address == kNowhere && total == 0) return found;

  const std::vector<size_t> pointers = pointer_sizes(file, node_size, size, root.level);
  const size_t count_size = width_of((node_size - kFrame) / size);
  std::vector<Node> open = {root};
  while (!open.empty()) {
    const Node node = open.back();
    open.pop_back();
    // A node without records would let few bytes stand for many nodes.
    file.expect(node.records > 0 && node.records <= total - found.size(),
                "a B-tree node with an odd number of records");
    const bool leaf = node.level == 0;
    const size_t pointer = leaf ? 0 : pointers[node.level - 1];
    Cursor c = file.block(node.address, kFrame + node.records * size + (node.records + 1) * pointer,
                          leaf ? "BTLF" : "BTIN");
    c.expect(1, 0, kOther);
    c.expect(1, kind, kOther);
    for (uint64_t i = 0; i < node.records; ++i) found.push_back(c.bytes(size));
    for (uint64_t i = 0; !leaf && i <= node.records; ++i) {
      const uint64_t child = c.address(), records = c.number(count_size);
      c.skip(pointer - 8 - count_size);
      open.push_back({child, records, node.level - 1});
    }
  }
  file.expect(found.size() == total, "a B-tree with another number of records than it says");
  return found;
}

}  // namespace rlreplay::format::h5
