#include "format/boxes.h"

#include <algorithm>

#include "format/dataset.h"
#include "format/item_text.h"

namespace rlreplay::format {
namespace {

using Numbers = std::vector<uint64_t>;

constexpr std::string_view kBoxes = "boxes", kTensors = "tensors";
constexpr std::string_view kFullShape = "full_shape", kStart = "start";  // of 0.1

template <class T>
const T* find(const h5::Attributes& attributes, std::string_view name) {
  const auto at = attributes.find(std::string(name));
  return at == attributes.end() ? nullptr : std::get_if<T>(&at->second);
}

bool has(const h5::Attributes& attributes, std::string_view name) {
  return attributes.contains(std::string(name));
}

bool is_sound(const Box& box) {
  const bool named = box.tensor.empty() || (sound_dataset_path("0/" + box.tensor));
  return named && std::ranges::all_of(box.dims, lies_within) && elements_of(box.shape()) &&
         elements_of(box.lengths());
}

/// The box of a dataset of version 0.1: one block of the dataset's own tensor.
std::optional<std::vector<Box>> shard_of(std::string_view name, std::span<const uint64_t> shape,
                                         const h5::Attributes& attributes) {
  const auto* full = find<Numbers>(attributes, kFullShape);
  const auto* start = find<Numbers>(attributes, kStart);
  if (full == nullptr || start == nullptr || full->size() != shape.size() ||
      start->size() != shape.size()) {
    return std::nullopt;
  }
  Box box{std::string(name), {}};
  for (size_t d = 0; d < shape.size(); ++d) box.dims.push_back({(*start)[d], shape[d], (*full)[d]});
  if (!is_sound(box)) return std::nullopt;
  return std::vector<Box>{std::move(box)};
}

}  // namespace

uint64_t Box::elements() const {
  uint64_t out = 1;
  for (const Interval& i : dims) out *= i.length;
  return out;
}

std::vector<uint64_t> Box::lengths() const {
  std::vector<uint64_t> out;
  for (const Interval& i : dims) out.push_back(i.length);
  return out;
}

std::vector<uint64_t> Box::shape() const {
  std::vector<uint64_t> out;
  for (const Interval& i : dims) out.push_back(i.of);
  return out;
}

std::vector<uint64_t> Box::numbers() const {
  std::vector<uint64_t> out;
  for (const Interval& i : dims) out.insert(out.end(), {i.first, i.length, i.of});
  return out;
}

Box whole_box(std::string tensor, std::span<const uint64_t> shape) {
  Box out{std::move(tensor), {}};
  for (const uint64_t n : shape) out.dims.push_back({0, n, n});
  return out;
}

bool is_placing(std::string_view name) {
  return name == kBoxes || name == kTensors || name == kFullShape || name == kStart;
}

bool is_cut(const h5::Attributes& attributes) {
  return std::ranges::any_of(attributes, [](const auto& a) { return is_placing(a.first); });
}

std::optional<std::vector<Box>> boxes_of(std::string_view name, std::span<const uint64_t> shape,
                                         const h5::Attributes& attributes) {
  if (!is_cut(attributes)) return std::vector<Box>{whole_box(std::string(name), shape)};
  const auto* numbers = find<Numbers>(attributes, kBoxes);
  const auto* tensors = find<std::string>(attributes, kTensors);
  const bool old = has(attributes, kFullShape) || has(attributes, kStart);
  if (old && !has(attributes, kBoxes) && !has(attributes, kTensors)) {
    return shard_of(name, shape, attributes);
  }
  if (old || numbers == nullptr || tensors == nullptr) return std::nullopt;
  std::vector<Box> out;
  uint64_t total = 0;
  if (!numbers->empty()) {
    const std::vector<std::string> lines = lines_of(*tensors);
    const size_t dims = numbers->size() / 3 / lines.size();
    if (dims == 0 || dims * 3 * lines.size() != numbers->size()) return std::nullopt;
    const uint64_t* at = numbers->data();
    for (const std::string& line : lines) {
      Box& box = out.emplace_back(Box{line, {}});
      for (size_t d = 0; d < dims; ++d, at += 3) box.dims.push_back({at[0], at[1], at[2]});
      if (!is_sound(box) || __builtin_add_overflow(total, box.elements(), &total)) {
        return std::nullopt;
      }
    }
  } else if (!tensors->empty()) {
    return std::nullopt;
  }
  // Boxes lie one behind the other in the dataset, and fill it.
  if (elements_of(shape) != total) return std::nullopt;
  return out;
}

void set_boxes(h5::Attributes& attributes, std::span<const Box> boxes) {
  Numbers numbers;
  std::string tensors;
  for (const Box& box : boxes) {
    const Numbers of = box.numbers();
    numbers.insert(numbers.end(), of.begin(), of.end());
    tensors += (&box == boxes.data() ? "" : "\n") + box.tensor;
  }
  attributes[std::string(kBoxes)] = std::move(numbers);
  attributes[std::string(kTensors)] = std::move(tensors);
}

}  // namespace rlreplay::format
