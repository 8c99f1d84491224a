#include "src/replay/compare/group_tensors.h"

#include <algorithm>

#include "format/logical_tensor.h"
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
    const format::Problem& problem = error.problem();
    of_forms_ = problem.dataset.substr(std::min(problem.dataset.size(), group_.size() + 1));
    forms_ = {error.what(), format::rank_of(problem.path), false, std::nullopt};
  }
  return logical_;
}

int64_t GroupTensors::rank_of(size_t unit) const {
  return format::rank_of(units_[unit].record().path);
}

std::optional<int64_t> GroupTensors::holder(const std::string& name) {
  const auto* tensor = find(name);
  if (tensor == nullptr || units_.size() == 1) return std::nullopt;
  return rank_of(tensor->parts.front().unit);
}

std::string GroupTensors::name_of(size_t unit, size_t beside) const {
  if (rank_of(unit) == rank_of(beside)) return units_[unit].record().path;
  return "rank " + std::to_string(rank_of(unit));
}

std::optional<GroupTensors::Torn> GroupTensors::find_torn(const std::string& name) {
  const auto* tensor = find(name);
  if (tensor == nullptr) return of_forms_ == name ? forms_ : std::nullopt;
  if (!tensor->cut && tensor->parts.size() == 1) return std::nullopt;  // is not decoded for it
  const auto fault = logical_->find_fault(name);
  if (!fault) return std::nullopt;
  const uint64_t all = tensor->bytes() / size_of(tensor->dtype);
  const bool lacks = fault->held < all;
  const std::string text =
      lacks ? std::to_string(fault->held) + " of " + std::to_string(all) + " elements"
            : text_of(*fault, *tensor);
  return Torn{text, rank_of(fault->unit), lacks, tensor->dtype};
}

std::string GroupTensors::text_of(const format::LogicalGroup::Fault& fault,
                                  const format::LogicalGroup::Tensor& tensor) const {
  return format::place_text(*fault.element, tensor.shape) + " is " + fault.before + " in " +
         name_of(*fault.first, fault.unit) + ", " + fault.now + " in " +
         name_of(fault.unit, *fault.first);
}

GroupTensors::Put GroupTensors::put_over(const std::string& name, std::span<std::byte> other) {
  const auto fault = logical_->put_into(name, other);
  if (!fault) return {other.size() / size_of(find(name)->dtype), {}};
  return {fault->held, fault->first ? text_of(*fault, *find(name)) : ""};
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
