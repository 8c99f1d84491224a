#include "format/box_meaning.h"

#include <algorithm>
#include <string>

#include "format/boxes.h"
#include "format/columns.h"
#include "format/dataset.h"

namespace rlreplay::format {
namespace {

/// The numbers of an attribute, for people.
std::string numbers_text(const h5::Attributes& attributes, const char* name) {
  const auto found = attributes.find(name);
  if (found == attributes.end()) return "absent";
  const auto* numbers = std::get_if<std::vector<uint64_t>>(&found->second);
  return numbers == nullptr ? "a text" : shape_text(*numbers);
}

}  // namespace

void check_boxes(const UnitReader& unit, std::string_view name, const StoredDataset& dataset,
                 std::vector<Problem>& problems) {
  if (!is_cut(dataset.attributes)) return;
  const auto report = [&](const std::string& message) {
    problems.push_back({Rule::kMeaning, unit.record().path, dataset.path, message});
  };
  const auto boxes = boxes_of(name, dataset.shape, dataset.attributes);
  const bool old =
      dataset.attributes.contains("start") || dataset.attributes.contains("full_shape");
  if (!boxes) {
    return report(old ? "the shard does not lie within its tensor: its shape is " +
                            shape_text(dataset.shape) + ", its start " +
                            numbers_text(dataset.attributes, "start") + ", of " +
                            numbers_text(dataset.attributes, "full_shape")
                      : kUnsoundBoxes);
  }
  const std::string_view kind = kind_of(unit.record().path);
  const auto known = std::ranges::find_if(*boxes, [&](const Box& box) {
    return box.tensor == "scalars" || find_known(kind, box.tensor) != nullptr;
  });
  if (!old && (known != boxes->end() || find_known(kind, name) != nullptr)) {
    report("a dataset of the tables is no tensor of boxes: " +
           (known != boxes->end() ? known->tensor : std::string(name)));
  }
}

}  // namespace rlreplay::format
