#include "format/part_content.h"

#include <map>
#include <optional>
#include <utility>

#include "format/dataset.h"
#include "format/item_text.h"
#include "format/logical_tensor.h"
#include "src/base/buffer.h"

namespace rlreplay::format {
namespace {

/// A value while it is put together.
class Assembly {
 public:
  void add(const Part& part) {
    if (!first_) {
      first_ = &part;
      dtype_ = part.dtype;
    } else if (dtype_) {
      dtype_ = common_type(*dtype_, part.dtype);
    }
    alike_ =
        alike_ && part.box.shape() == first_->box.shape() && part.attributes == first_->attributes;
    held_ += part.box.elements();
  }

  /// Takes memory for the elements, where they can be whole.
  void begin(const UnitPart& at, const PartSource& source) {
    const uint64_t total = elements_of(first_->box.shape()).value_or(0);
    fits_ = dtype_ && alike_ && held_ >= total;
    if (!fits_) return;
    const uint64_t bytes = total * size_of(*dtype_);
    source.hold(at.unit, at.part->dataset, bytes + LogicalTensor::bookkeeping(total));
    elements_ = Buffer<std::byte>(bytes);
    tensor_.emplace(*dtype_, first_->box.shape(), std::span(elements_));
  }

  void put(const Part& part, std::span<const std::byte> bytes) {
    if (fits_ && tensor_->put(part.box, part.dtype, bytes, 0)) fits_ = false;
  }

  [[nodiscard]] bool is_whole() const { return fits_ && !tensor_->gap(); }

  Hash item() const {
    const std::vector<uint64_t> shape = first_->box.shape();
    const std::string value = elements_text(*dtype_, elements_, {});
    return hash_of_item(first_->key.empty() ? "-" : first_->key,
                        value + " " + comma_list(shape) + first_->attributes + "\n");
  }

 private:
  const Part* first_ = nullptr;
  std::optional<DType> dtype_;
  bool alike_ = true;
  bool fits_ = false;
  uint64_t held_ = 0;
  Buffer<std::byte> elements_;
  std::optional<LogicalTensor> tensor_;
};

Hash item_of(const UnitPart& at, std::span<const std::byte> bytes) {
  const Part& part = *at.part;
  const std::string text = elements_text(part.dtype, bytes, {}) + " " +
                           comma_list(part.box.lengths()) + part.attributes +
                           " boxes=" + comma_list(part.box.numbers()) + "\n";
  return hash_of_item(part.key.empty() ? std::to_string(at.unit) : part.key, text);
}

}  // namespace

std::vector<Hash> part_items(std::span<const UnitPart> parts, const PartSource& source) {
  std::map<std::string_view, Assembly> values;
  std::map<std::pair<size_t, std::string_view>, std::vector<const UnitPart*>> by_dataset;
  for (const UnitPart& at : parts) {
    values[at.part->key].add(*at.part);
    by_dataset[{at.unit, at.part->dataset}].push_back(&at);
  }
  // All parts of a value are known now: whether they can make it whole, and so whether memory is
  // taken.
  std::map<std::string_view, bool> begun;
  for (const UnitPart& at : parts) {
    if (begun.emplace(at.part->key, true).second) values[at.part->key].begin(at, source);
  }
  const auto for_each = [&](auto wanted, auto use) {
    for (const auto& [place, of] : by_dataset) {
      std::span<const std::byte> bytes;
      bool read = false;
      for (const UnitPart* at : of) {
        const Part& part = *at->part;
        if (part.box.elements() == 0 || !wanted(part)) continue;
        if (!std::exchange(read, true)) bytes = source.read(at->unit, part.dataset);
        const size_t size = size_of(part.dtype);
        use(*at, bytes.subspan(part.begin * size, part.box.elements() * size));
      }
    }
  };
  // By dataset, so that each is read once; what cannot be made whole is read again below, for the
  // items of its parts.
  for_each([](const Part&) { return true; },
           [&](const UnitPart& at, auto bytes) { values[at.part->key].put(*at.part, bytes); });
  std::vector<Hash> items;
  std::map<std::string_view, bool> whole;
  for (const auto& [key, value] : values) {
    whole[key] = value.is_whole();
    if (whole[key]) items.push_back(value.item());
  }
  for_each([&](const Part& part) { return !whole[part.key]; },
           [&](const UnitPart& at, auto bytes) { items.push_back(item_of(at, bytes)); });
  return items;
}

}  // namespace rlreplay::format
