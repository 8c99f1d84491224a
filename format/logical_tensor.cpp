#include "format/logical_tensor.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "format/dataset.h"
#include "src/base/dtype.h"
#include "src/base/error.h"
#include "src/base/number_text.h"
#include "src/base/same_value.h"

namespace rlreplay::format {
namespace {

double float_at(const std::byte* at, DType dtype) {
  return dtype == DType::kF32 ? static_cast<double>(load_as<float>(at)) : load_as<double>(at);
}

bool is_float(DType dtype) { return dtype == DType::kF32 || dtype == DType::kF64; }

bool same(const std::byte* a, DType a_type, const std::byte* b, DType b_type) {
  if (is_float(a_type)) return same_value(float_at(a, a_type), float_at(b, b_type));
  return std::memcmp(a, b, size_of(a_type)) == 0;
}

std::string text_of(const std::byte* at, DType dtype) {
  if (is_float(dtype)) return shortest_of(float_at(at, dtype));
  if (dtype == DType::kI32) return std::to_string(load_as<int32_t>(at));
  if (dtype == DType::kI64) return std::to_string(load_as<int64_t>(at));
  std::string bits = "0x";
  for (size_t i = size_of(dtype); i-- > 0;) {
    bits += hex(std::to_integer<uint64_t>(at[i]), 2);
  }
  return bits;
}

}  // namespace

/// A rank stores binary64 where binary32 does not hold its numbers: blocks of one tensor may be of
/// both.
std::optional<DType> common_type(DType a, DType b) {
  if (a == b) return a;
  if (is_float(a) && is_float(b)) return DType::kF64;
  return std::nullopt;
}

std::string place_text(uint64_t element, std::span<const uint64_t> shape) {
  std::vector<uint64_t> at(shape.size());
  for (size_t d = shape.size(); d-- > 0;) {
    at[d] = element % shape[d];
    element /= shape[d];
  }
  return shape_text(at);
}

LogicalTensor::LogicalTensor(DType dtype, std::vector<uint64_t> shape, std::span<std::byte> out)
    : dtype_(dtype), shape_(std::move(shape)), out_(out) {
  elements_ = elements_of(shape_).value_or(0);
  check(out.size() == elements_ * size_of(dtype), "a tensor is not of the size of its elements");
  given_.resize(elements_ / 64 + 1);
}

void LogicalTensor::copy(uint64_t to, uint64_t count, const std::byte* from, DType dtype) {
  const size_t size = size_of(dtype_);
  if (dtype == dtype_) {
    std::memcpy(out_.data() + to * size, from, count * size);
    return;
  }
  for (uint64_t i = 0; i < count; ++i) {
    const auto value = static_cast<double>(load_as<float>(from + i * sizeof(float)));
    std::memcpy(out_.data() + (to + i) * size, &value, size);
  }
}

bool LogicalTensor::none_given(uint64_t begin, uint64_t end) const {
  while (begin < end) {
    const uint64_t bits = std::min(end - begin, 64 - begin % 64);
    const uint64_t mask = (bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1) << begin % 64;
    if ((given_[begin / 64] & mask) != 0) return false;
    begin += bits;
  }
  return true;
}

void LogicalTensor::mark(uint64_t begin, uint64_t end) {
  while (begin < end) {
    const uint64_t bits = std::min(end - begin, 64 - begin % 64);
    given_[begin / 64] |= (bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1) << begin % 64;
    begin += bits;
  }
}

size_t LogicalTensor::giver_of(uint64_t element) const {
  for (const Given& given : boxes_) {
    uint64_t rest = element;
    bool inside = true;
    for (size_t d = shape_.size(); inside && d-- > 0;) {
      const Interval& i = given.box.dims[d];
      const uint64_t at = rest % shape_[d];
      inside = at >= i.first && at - i.first < i.length;
      rest /= shape_[d];
    }
    if (inside) return given.source;
  }
  return 0;
}

std::optional<LogicalTensor::Differing> LogicalTensor::put(const Box& box, DType dtype,
                                                           std::span<const std::byte> elements,
                                                           size_t source) {
  const size_t size = size_of(dtype), own = size_of(dtype_);
  const uint64_t total = box.elements();
  check(box.shape() == shape_ && elements.size() == total * size, "a block is of another tensor");
  if (total == 0) return std::nullopt;
  // Behind dimension `cut` the block is as wide as the tensor: its rows are one run there.
  size_t cut = box.dims.size() - 1;
  while (cut > 0 && box.dims[cut].length == shape_[cut]) --cut;
  uint64_t width = 1;
  for (size_t d = cut + 1; d < shape_.size(); ++d) width *= shape_[d];
  const uint64_t run = box.dims[cut].length * width;
  std::vector<uint64_t> at(cut, 0);  // of the run, within the block
  std::optional<Differing> differing;
  for (uint64_t done = 0; done < total; done += run) {
    uint64_t begin = 0;
    for (size_t d = 0; d < cut; ++d) begin = begin * shape_[d] + box.dims[d].first + at[d];
    begin = (begin * shape_[cut] + box.dims[cut].first) * width;
    const std::byte* from = elements.data() + done * size;
    // A run that no block gave yet is copied at once, any other by its elements, to find the first
    // that two blocks say differently.
    if (none_given(begin, begin + run)) {
      copy(begin, run, from, dtype);
    } else {
      for (uint64_t i = 0; i < run; ++i) {
        const std::byte *now = from + i * size, *before = out_.data() + (begin + i) * own;
        if (!is_given(begin + i)) {
          copy(begin + i, 1, now, dtype);
        } else if (!differing && !same(before, dtype_, now, dtype)) {
          differing = {begin + i, giver_of(begin + i), text_of(before, dtype_),
                       text_of(now, dtype)};
        }
      }
    }
    mark(begin, begin + run);
    for (size_t d = cut; d-- > 0;) {
      if (++at[d] < box.dims[d].length) break;
      at[d] = 0;
    }
  }
  boxes_.push_back({box, source});
  return differing;
}

uint64_t LogicalTensor::given() const {
  uint64_t out = 0;
  for (const uint64_t bits : given_) out += static_cast<uint64_t>(std::popcount(bits));
  return out;
}

std::optional<uint64_t> LogicalTensor::gap() const {
  for (uint64_t at = 0; at < elements_; ++at) {
    if (at % 64 == 0 && given_[at / 64] == ~uint64_t{0}) {
      at += 63;
      continue;
    }
    if (!is_given(at)) return at;
  }
  return std::nullopt;
}

}  // namespace rlreplay::format
