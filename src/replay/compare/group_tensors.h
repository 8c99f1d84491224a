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

 private:
  std::optional<format::LogicalGroup>& logical();
  [[nodiscard]] const format::LogicalGroup::Tensor* find(const std::string& name);
  /// The dataset of what is no tensor, where exactly one unit has it.
  [[nodiscard]] std::optional<PlainDataset> only(const std::string& name) const;

  const std::string &kind_, &group_;
  const format::DumpReader& dump_;
  std::span<const format::UnitReader> units_;
  std::optional<format::LogicalGroup> logical_;
  bool tried_ = false;
};

}  // namespace rlreplay::replay
