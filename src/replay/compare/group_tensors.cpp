#include "src/replay/compare/group_tensors.h"

#include "format/rule.h"
#include "format/unit.h"

namespace rlreplay::replay {

std::string GroupTensors::shape(const std::string& name) {
  if (const auto* tensor = find(name)) return format::shape_text(tensor->shape);
  const auto alone = only(name);
  return alone ? format::shape_text(alone->dataset->shape) : "";
}

std::optional<PlainDataset> GroupTensors::plain(const std::string& name) {
  const auto* tensor = find(name);
  std::optional<PlainDataset> out;
  if (tensor == nullptr) {
    out = only(name);
  } else if (!tensor->cut && tensor->parts.size() == 1) {
    const format::LogicalGroup::Part& part = tensor->parts.front();
    const format::UnitReader& unit = units_[part.unit];
    out = PlainDataset{&unit, unit.find(group_ + "/" + part.dataset)};
  }
  return out && !out->dataset->base ? out : std::nullopt;
}

std::optional<std::pair<DType, Buffer<std::byte>>> GroupTensors::read(const std::string& name) {
  try {
    if (const auto* tensor = find(name)) return std::pair(tensor->dtype, logical()->read(name));
  } catch (const format::FormatError& error) {
    if (error.rule() != format::Rule::kMeaning) throw;
    return std::nullopt;
  }
  const auto alone = only(name);
  if (!alone) return std::nullopt;
  return std::pair(alone->dataset->dtype, dump_.read(*alone->unit, *alone->dataset));
}

/// Tried once. Parts that contradict one another make no group; what a single unit holds is found
/// without.
std::optional<format::LogicalGroup>& GroupTensors::logical() {
  if (std::exchange(tried_, true)) return logical_;
  try {
    logical_.emplace(dump_, kind_, group_, units_.size(),
                     [this](size_t unit) -> const format::UnitReader& { return units_[unit]; });
  } catch (const format::FormatError& error) {
    if (error.rule() != format::Rule::kMeaning) throw;
  }
  return logical_;
}

const format::LogicalGroup::Tensor* GroupTensors::find(const std::string& name) {
  return logical() ? logical()->find(name) : nullptr;
}

std::optional<PlainDataset> GroupTensors::only(const std::string& name) const {
  std::optional<PlainDataset> found;
  for (const format::UnitReader& unit : units_) {
    const format::StoredDataset* dataset = unit.find(group_ + "/" + name);
    if (dataset == nullptr) continue;
    if (found) return std::nullopt;
    found = PlainDataset{&unit, dataset};
  }
  return found;
}

}  // namespace rlreplay::replay
