#include "format/dataset.h"

#include <algorithm>

#include "src/base/ascii.h"

namespace rlreplay::format {
namespace {

bool plain(char c) { return is_word_character(c) || c == '-' || c == '.'; }

std::string value_text(const h5::Attribute& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return hash_of(*text).hex();
  return comma_list(std::get<std::vector<uint64_t>>(value));
}

}  // namespace

std::string comma_list(std::span<const uint64_t> numbers) {
  std::string text;
  for (const uint64_t n : numbers) text += (text.empty() ? "" : ",") + std::to_string(n);
  return text;
}

std::string shape_text(std::span<const uint64_t> shape) {
  std::string text;
  for (const uint64_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

Hash content_of(std::vector<StoredDataset> datasets) {
  std::sort(datasets.begin(), datasets.end(),
            [](const auto& a, const auto& b) { return a.path < b.path; });
  std::string text = "rlreplay content\n";
  for (const StoredDataset& d : datasets) {
    text += d.path + " " + std::string(to_string(d.dtype)) + " " + comma_list(d.shape) + " " +
            d.hash.hex();
    for (const auto& [name, value] : d.attributes) text += " " + name + "=" + value_text(value);
    text += '\n';
  }
  return hash_of(text);
}

std::optional<uint64_t> elements_of(std::span<const uint64_t> shape) {
  if (shape.empty() || shape.size() > 8) return std::nullopt;
  uint64_t elements = 1;
  for (const uint64_t n : shape) {
    if (__builtin_mul_overflow(elements, n, &elements)) return std::nullopt;
  }
  return elements;
}

h5::Element element_of(DType dtype) {
  using Kind = h5::Element::Kind;
  switch (dtype) {
    case DType::kI8:
    case DType::kI16:
    case DType::kI32:
    case DType::kI64:
      return {Kind::kSigned, size_of(dtype)};
    case DType::kF32:
    case DType::kF64:
      return {Kind::kFloat, size_of(dtype)};
    default:
      return {Kind::kUnsigned, size_of(dtype)};
  }
}

bool sound_dataset_path(std::string_view path) {
  size_t names = 0;
  while (true) {
    const size_t slash = std::min(path.find('/'), path.size());
    const std::string_view name = path.substr(0, slash);
    const bool sound =
        !name.empty() && name.size() <= 255 && name != "." && name != ".." &&
        std::all_of(name.begin(), name.end(), [](char c) { return plain(c) || c == '%'; });
    if (!sound) return false;
    ++names;
    if (slash == path.size()) break;
    path.remove_prefix(slash + 1);
  }
  return names >= 2 && names <= 4;
}

std::string link_name(std::string_view name) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string text;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (plain(c)) {
      text += c;
    } else {
      text += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return text;
}

}  // namespace rlreplay::format
