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

void LogicalGroup::fail(std::string_view name, const Tensor& tensor, const Fault& fault) const {
  const std::string what(name);
  std::string message = "of " + what + " the units hold " + std::to_string(fault.held) +
                        " elements of " + std::to_string(elements_of(tensor.shape).value_or(0));
  if (fault.element) {
    const std::string element =
        "element " + place_text(*fault.element, tensor.shape) + " of " + what;
    message = "no unit holds " + element;
    if (fault.first) {
      message = element + " is " + fault.now + " here, and " + fault.before + " in " +
                path_of(*fault.first);
    }
  }
  fail(fault.unit, fault.dataset, message);
}

uint64_t LogicalGroup::Tensor::held() const {
  uint64_t out = 0;
  std::set<std::vector<uint64_t>> counted;
  for (const Part& part : parts) {
    if (counted.insert(part.box.numbers()).second) out += part.box.elements();
  }
  return out;
}

/// What a unit claims of the whole is believed only as far as elements are there.
std::optional<LogicalGroup::Fault> LogicalGroup::find_lack(const Tensor& tensor) {
  const Part& first = tensor.parts.front();
  const uint64_t held = tensor.held();
  if (held >= elements_of(tensor.shape).value_or(0)) return std::nullopt;
  return Fault{first.unit, first.dataset, {}, {}, held, {}, {}};
}

Buffer<std::byte> LogicalGroup::read(std::string_view name) {
  const Tensor& tensor = tensors_.find(name)->second;
  if (const auto fault = find_lack(tensor)) fail(name, tensor, *fault);
  const Part& first = tensor.parts.front();
  check_memory(unit_(first.unit).record(), group_ + "/" + first.dataset, tensor.bytes());
  Buffer<std::byte> out(tensor.bytes());
  read_into(name, out);
  return out;
}

void LogicalGroup::read_into(std::string_view name, std::span<std::byte> out) {
  const Tensor& tensor = tensors_.find(name)->second;
  if (const auto fault = put_all(tensor, out)) fail(name, tensor, *fault);
}

std::optional<LogicalGroup::Fault> LogicalGroup::find_fault(std::string_view name) {
  const Tensor& tensor = tensors_.find(name)->second;
  if (auto fault = find_lack(tensor)) return fault;
  const Part& first = tensor.parts.front();
  check_memory(unit_(first.unit).record(), group_ + "/" + first.dataset, tensor.bytes());
  Buffer<std::byte> out(tensor.bytes());
  return put_all(tensor, out);
}

std::optional<LogicalGroup::Fault> LogicalGroup::put_into(std::string_view name,
                                                          std::span<std::byte> over) {
  return put_all(tensors_.find(name)->second, over);
}

std::optional<LogicalGroup::Fault> LogicalGroup::put_all(const Tensor& tensor,
                                                         std::span<std::byte> out) {
  LogicalTensor whole(tensor.dtype, tensor.shape, out);
  std::optional<Fault> fault;
  for (const Part& part : tensor.parts) {
    const size_t size = size_of(part.dtype);
    const auto bytes = source_.read(part.unit, part.dataset);
    const auto differing =
        whole.put(part.box, part.dtype,
                  bytes.subspan(part.begin * size, part.box.elements() * size), part.unit);
    if (!differing || fault) continue;
    fault = Fault{part.unit, part.dataset,      differing->first, differing->element,
                  0,         differing->before, differing->now};
  }
  if (fault) {
    fault->held = whole.given();
    return fault;
  }
  const auto gap = whole.gap();
  if (!gap) return std::nullopt;
  const Part& first = tensor.parts.front();
  return Fault{first.unit, first.dataset, {}, gap, whole.given(), {}, {}};
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
