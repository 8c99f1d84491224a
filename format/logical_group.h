#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "format/boxes.h"
#include "format/dump_content.h"
#include "format/logical_tensor.h"
#include "format/rule.h"
#include "src/base/buffer.h"

namespace rlreplay::format {

/// The tensors of a group, each element once, whichever units hold parts of it and however often.
class LogicalGroup {
 public:
  /// `unit` gives those that hold the group, `units` of them, in the order of their ranks. What the
  /// tables know, and scalars, is none of these tensors.
  LogicalGroup(const DumpReader& dump, std::string_view kind, const std::string& group,
               size_t units, const GroupParts::Unit& unit);

  LogicalGroup(const LogicalGroup&) = delete;
  LogicalGroup& operator=(const LogicalGroup&) = delete;

  struct Part {
    size_t unit = 0;
    std::string dataset;
    uint64_t begin = 0;  // its first element there
    DType dtype = DType::kU8;
    Box box;
    Hash stored;  // of the dataset's elements
  };
  struct Tensor {
    DType dtype = DType::kU8;
    std::vector<uint64_t> shape;
    std::vector<Part> parts;
    bool cut = false;  // a unit holds boxes of it; of a shard of 0.1 the others may be absent

    uint64_t bytes() const;
    [[nodiscard]] uint64_t held() const;  // elements in all units, a box of several units once
    /// Whether whole copies, or one, are all that is held of it, and have the same bytes.
    [[nodiscard]] bool is_plainly_one() const;
  };
  /// All tensors, by name. Errors at making: FormatError kMeaning where units give one tensor two
  /// shapes or types, or a dataset's boxes are not sound.
  const std::map<std::string, Tensor, std::less<>>& tensors() const { return tensors_; }
  [[nodiscard]] const Tensor* find(std::string_view name) const;

  /// All elements, row-major. Errors: FormatError kMeaning for an element that no unit holds, or
  /// that two hold differently, naming both; those of reading.
  [[nodiscard]] Buffer<std::byte> read(std::string_view name);
  /// Reads all elements into `out`, which has the tensor's bytes(). Errors: as of `read`.
  void read_into(std::string_view name, std::span<std::byte> out);

  /// Why a tensor has not each of its elements once.
  struct Fault {
    size_t unit = 0;  // that says something else than `first`, or holds a part of what is not whole
    std::string dataset;
    std::optional<size_t> first;      // the unit that said something else before; none of a gap
    std::optional<uint64_t> element;  // none where fewer are held than there are
    uint64_t held = 0;                // elements that the units hold
    std::string before, now;          // of the element, as text
  };
  /// The first fault of a tensor, which is decoded; nothing of a sound one.
  /// Errors: FormatError of reading.
  [[nodiscard]] std::optional<Fault> find_fault(std::string_view name);
  /// Puts all that is held of a tensor into `over`, which has the tensor's bytes(), and leaves
  /// there what is not: of what units say differently, the first. Returns the first contradiction,
  /// or the gap where there is none. Errors: FormatError of reading.
  [[nodiscard]] std::optional<Fault> put_into(std::string_view name, std::span<std::byte> over);

 private:
  [[nodiscard]] static std::optional<Fault> find_lack(const Tensor& tensor);
  [[nodiscard]] std::optional<Fault> put_all(const Tensor& tensor, std::span<std::byte> out);
  [[noreturn]] void fail(std::string_view name, const Tensor& tensor, const Fault& fault) const;
  void add(size_t number, const StoredDataset& dataset);
  [[noreturn]] void fail(size_t unit, const std::string& dataset, const std::string& message) const;
  std::string path_of(size_t unit) const;

  std::string group_;
  GroupParts::Unit unit_;
  GroupParts parts_;
  PartSource source_;
  std::map<std::string, Tensor, std::less<>> tensors_;
};

/// The tensors of a group in all units of its kind that hold it.
[[nodiscard]] LogicalGroup logical_group(const DumpReader& dump, std::string_view kind,
                                         const std::string& group);

/// Groups by kind and name.
using GroupNames = std::set<std::pair<std::string, std::string>>;

/// What several units hold of a tensor, whole or in parts, and say differently, or none of them
/// holds. `cut`: the groups with a dataset that says which parts it holds; others that one unit has
/// are not opened. Copies whose recorded hashes are the same, which the caller has checked, are not
/// decoded again.
void check_cuts(const DumpReader& dump, const GroupNames& cut, std::vector<Problem>& problems);

}  // namespace rlreplay::format
