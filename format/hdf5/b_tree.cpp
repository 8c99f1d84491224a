#include "format/hdf5/b_tree.h"

#include <bit>

#include "format/hdf5/lookup3.h"

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
    file.expect_at_most(kFrame + sizes.back() + record + 1, node,
                        "a B-tree of nodes without room for a record");
    const uint64_t most = (node - kFrame - sizes.back()) / (record + sizes.back());
    total = (most + 1) * total + most;
  }
  return sizes;
}

constexpr char kOtherTree[] = "a B-tree of another kind";

/// One walk over the nodes, in the order of their records.
class TreeWalk {
 public:
  TreeWalk(File& file, uint64_t address, uint64_t type, size_t size, size_t most);
  std::vector<Bytes> run();

 private:
  void visit(uint64_t address, uint64_t records, size_t level);

  File& file_;
  uint64_t type_;
  size_t size_;
  uint64_t root_ = 0, root_records_ = 0, total_ = 0, node_size_ = 0;
  size_t depth_ = 0;
  std::vector<size_t> pointers_;  // by the level of the child
  uint64_t left_ = 0;             // records of nodes that were not visited
  std::vector<Bytes> found_;
};

TreeWalk::TreeWalk(File& file, uint64_t address, uint64_t type, size_t size, size_t most)
    : file_(file), type_(type), size_(size) {
  Cursor header = file.block(address, 38, "BTHD");
  header.expect(1, 0, kOtherTree);
  header.expect(1, type, kOtherTree);
  node_size_ = header.number(4);
  header.expect(2, size, kOtherTree);
  depth_ = static_cast<size_t>(header.number(2));
  header.skip(2);
  root_ = header.address();
  root_records_ = header.number(2);
  left_ = total_ = header.number(8);
  file.expect_at_most(kFrame + size, node_size_, "a B-tree of nodes smaller than a record");
  file.expect_at_most(node_size_, kMaxNode, "a B-tree of nodes too large");
  file.expect_at_most(depth_, kMaxDepth, "a B-tree too deep");
  file.expect_at_most(total_, most, "a B-tree with too many records");
}

std::vector<Bytes> TreeWalk::run() {
  if (root_ == kNowhere && total_ == 0) return {};
  pointers_ = pointer_sizes(file_, node_size_, size_, depth_);
  visit(root_, root_records_, depth_);
  file_.expect_equal(total_ - left_, total_, "a B-tree with another number of records");
  return std::move(found_);
}

void TreeWalk::visit(uint64_t address, uint64_t records, size_t level) {
  // A node without records would let few bytes stand for many nodes.
  file_.expect(records > 0, "a B-tree node without records");
  file_.expect_at_most(records, left_, "a B-tree node with more records than are left of the tree");
  left_ -= records;
  file_.expect_at_most(node_size_, file_.look_ahead(address).left(),
                       "a B-tree node beyond the file's end");
  const size_t count_size = width_of((node_size_ - kFrame) / size_);
  const size_t pointer = level == 0 ? 0 : pointers_[level - 1];
  const uint64_t used = kFrame + records * size_ + (records + 1) * pointer;
  Cursor c = file_.block(address, used, level == 0 ? "BTLF" : "BTIN");
  file_.expect_at_most(used, node_size_, "a B-tree node with more records than it has room for");
  file_.take(address + used, node_size_ - used);  // nothing else lies there
  c.expect(1, 0, kOtherTree);
  c.expect(1, type_, kOtherTree);
  Cursor own(c.bytes(records * size_), file_);
  for (uint64_t i = 0; i <= records; ++i) {
    if (level > 0) {
      const uint64_t child = c.address(), inner = c.number(count_size);
      c.skip(pointer - 8 - count_size);
      visit(child, inner, level - 1);
    }
    if (i < records) found_.push_back(own.bytes(size_));
  }
}

}  // namespace

std::vector<Bytes> records_of(File& file, uint64_t address, RecordType type, size_t size,
                              size_t most) {
  return TreeWalk(file, address, static_cast<uint64_t>(type), size, most).run();
}

void NameOrder::next(const File& file, uint64_t checksum, const std::string& name) {
  file.expect(has_checksum(std::as_bytes(std::span(name)), checksum),
              "a name in a B-tree does not have its checksum");
  std::pair key(checksum, name);
  file.expect(!last_ || *last_ < key, "names in a B-tree are not in order");
  last_ = std::move(key);
}

}  // namespace rlreplay::format::h5
