#include "format/logical_group.h"

#include <algorithm>
#include <utility>

#include "format/columns.h"
#include "format/held_bytes.h"

namespace rlreplay::format {

uint64_t LogicalGroup::Tensor::bytes() const {
  return elements_of(shape).value_or(0) * size_of(dtype);
}

bool LogicalGroup::Tensor::is_plainly_one() const {
  if (cut) return false;
  const Part& first = parts.front();
  return std::ranges::all_of(parts, [&](const Part& part) {
    return part.dtype == first.dtype && part.stored == first.stored;
  });
}

LogicalGroup::LogicalGroup(const DumpReader& dump, std::string_view kind, const std::string& group,
                           size_t units, const GroupParts::Unit& unit)
    : group_(group), unit_(unit), parts_(dump, group, unit), source_(parts_.source()) {
  for (size_t u = 0; u < units; ++u) {
    const UnitReader& reader = unit_(u);
    for (const StoredDataset& dataset : reader.datasets_of(group)) {
      const std::string_view name = std::string_view(dataset.path).substr(group.size() + 1);
      if (name != "scalars" && find_known(kind, name) == nullptr) add(u, dataset);
    }
  }
}

void LogicalGroup::add(size_t number, const StoredDataset& dataset) {
  const std::string name = dataset.path.substr(group_.size() + 1);
  const auto boxes = boxes_of(name, dataset.shape, dataset.attributes);
  if (!boxes) fail(number, name, kUnsoundBoxes);
  uint64_t begin = 0;
  for (const Box& box : *boxes) {
    const uint64_t first = std::exchange(begin, begin + box.elements());
    if (box.tensor.empty()) continue;
    const auto [at, fresh] = tensors_.try_emplace(box.tensor);
    Tensor& tensor = at->second;
    if (fresh) {
      tensor.dtype = dataset.dtype;
      tensor.shape = box.shape();
    }
    const auto type = common_type(tensor.dtype, dataset.dtype);
    if (!type || tensor.shape != box.shape()) {
      fail(number, name,
           box.tensor + " is " + std::string(to_string(dataset.dtype)) + " " +
               shape_text(box.shape()) + " here, and " + std::string(to_string(tensor.dtype)) +
               " " + shape_text(tensor.shape) + " in " + path_of(tensor.parts.front().unit));
    }
    tensor.dtype = *type;
    tensor.cut = tensor.cut || dataset.attributes.contains("boxes");
    tensor.parts.push_back({number, name, first, dataset.dtype, box, dataset.hash});
  }
}

const LogicalGroup::Tensor* LogicalGroup::find(std::string_view name) const {
  const auto at = tensors_.find(name);
  return at == tensors_.end() ? nullptr : &at->second;
}

std::string LogicalGroup::path_of(size_t unit) const { return unit_(unit).record().path; }

void LogicalGroup::fail(size_t unit, const std::string& dataset, const std::string& message) const {
  throw FormatError(Rule::kMeaning, message, path_of(unit), group_ + "/" + dataset);
}

Buffer<std::byte> LogicalGroup::read(std::string_view name) {
  const Tensor& tensor = tensors_.find(name)->second;
  uint64_t held = 0;
  for (const Part& part : tensor.parts) held += part.box.elements();
  // What a unit claims of the whole is believed only as far as elements are there.
  const uint64_t total = elements_of(tensor.shape).value_or(0);
  if (held < total) {
    const Part& first = tensor.parts.front();
    fail(first.unit, first.dataset,
         "of " + std::string(name) + " the units hold " + std::to_string(held) + " elements of " +
             std::to_string(total));
  }
  const Part& first = tensor.parts.front();
  check_memory(unit_(first.unit).record(), group_ + "/" + first.dataset, tensor.bytes());
  Buffer<std::byte> out(tensor.bytes());
  read_into(name, out);
  return out;
}

void LogicalGroup::read_into(std::string_view name, std::span<std::byte> out) {
  const Tensor& tensor = tensors_.find(name)->second;
  LogicalTensor whole(tensor.dtype, tensor.shape, out);
  const std::string what(name);
  for (const Part& part : tensor.parts) {
    const size_t size = size_of(part.dtype);
    const auto bytes = source_.read(part.unit, part.dataset);
    const auto differing =
        whole.put(part.box, part.dtype,
                  bytes.subspan(part.begin * size, part.box.elements() * size), part.unit);
    if (!differing) continue;
    fail(part.unit, part.dataset,
         "element " + place_text(differing->element, tensor.shape) + " of " + what + " is " +
             differing->now + " here, and " + differing->before + " in " +
             path_of(differing->first));
  }
  if (const auto gap = whole.gap()) {
    const Part& first = tensor.parts.front();
    fail(first.unit, first.dataset,
         "no unit holds element " + place_text(*gap, tensor.shape) + " of " + what);
  }
}

LogicalGroup logical_group(const DumpReader& dump, std::string_view kind,
                           const std::string& group) {
  const auto records = dump.find(kind, group);
  return {dump, kind, group, records.size(), opened_units(dump, records)};
}

void check_cuts(const DumpReader& dump, const GroupNames& cut, std::vector<Problem>& problems) {
  for (const auto& [kind, group] : content_groups(dump)) {
    if (!cut.contains({kind, group}) && dump.find(kind, group).size() == 1) continue;
    try {
      LogicalGroup logical = logical_group(dump, kind, group);
      for (const auto& [name, tensor] : logical.tensors()) {
        const bool is_own = !tensor.cut && name.starts_with("events/");  // a rank's own
        if (is_own || tensor.is_plainly_one()) continue;
        try {
          static_cast<void>(logical.read(name));
        } catch (const FormatError& error) {
          problems.push_back(error.problem());
        }
      }
    } catch (const FormatError& error) {
      problems.push_back(error.problem());
    }
  }
}

}  // namespace rlreplay::format
