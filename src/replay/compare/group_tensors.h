#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>

#include "format/dump_reader.h"
#include "format/logical_group.h"
#include "format/unit_reader.h"
#include "src/base/buffer.h"
#include "src/base/dtype.h"
#include "src/replay/compare/paired_pieces.h"

namespace rlreplay::replay {

/// The tensors of a group of one dump, each once; none of them where its units contradict each
/// other.
class GroupTensors {
 public:
  /// All outlive it.
  GroupTensors(const std::string& kind, const std::string& group, const format::DumpReader& dump,
               std::span<const format::UnitReader> units)
      : kind_(kind), group_(group), dump_(dump), units_(units) {}

  /// "[16, 64]"; empty where there is no such tensor.
  std::string shape(const std::string& name);

  /// The one dataset that holds a tensor whole and is no difference; nothing of others.
  [[nodiscard]] std::optional<PlainDataset> plain(const std::string& name);

  /// All elements; nothing where there is none, or an element is said twice or not at all.
  /// Errors: FormatError of reading.
  [[nodiscard]] std::optional<std::pair<DType, Buffer<std::byte>>> read(const std::string& name);

  /// The rank that holds a tensor or a part of it; nothing where no other holds any of the group.
  [[nodiscard]] std::optional<int64_t> holder(const std::string& name);

  /// Why `read` gives nothing of a tensor that units hold.
  struct Torn {
    std::string text;            // "[0, 37] is 0.5 in rank 0, 0.25 in rank 1", "12 of 64 elements"
    int64_t rank = 0;            // that says something else, or holds a part
    bool lacks = false;          // elements that no unit holds
    std::optional<DType> dtype;  // none where units hold it in several forms
  };
  [[nodiscard]] std::optional<Torn> find_torn(const std::string& name);
  /// Puts what is held of a tensor that lacks elements over those of another dump, which has its
  /// type and shape. Errors: FormatError of reading.
  struct Put {
    uint64_t count = 0;         // elements
    std::string contradiction;  // of units about the first element, if any
  };
  [[nodiscard]] Put put_over(const std::string& name, std::span<std::byte> other);

 private:
  [[nodiscard]] int64_t rank_of(size_t unit) const;
  [[nodiscard]] std::string name_of(size_t unit, size_t beside) const;
  /// "[0, 37] is 0.5 in rank 0, 0.25 in rank 1".
  [[nodiscard]] std::string text_of(const format::LogicalGroup::Fault& fault,
                                    const format::LogicalGroup::Tensor& tensor) const;
  std::optional<format::LogicalGroup>& logical();
  [[nodiscard]] const format::LogicalGroup::Tensor* find(const std::string& name);
  /// The dataset of what is no tensor, where exactly one unit has it.
  [[nodiscard]] std::optional<PlainDataset> only(const std::string& name) const;

  const std::string &kind_, &group_;
  const format::DumpReader& dump_;
  std::span<const format::UnitReader> units_;
  std::optional<format::LogicalGroup> logical_;
  std::optional<Torn> forms_;  // why there is no `logical_`
  std::string of_forms_;       // the dataset whose units contradict each other
  bool tried_ = false;
};

}  // namespace rlreplay::replay
