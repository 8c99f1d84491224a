#include "format/foreign/token_column.h"

#include <algorithm>
#include <bit>

namespace rlreplay::foreign {
namespace {

bool fits_float(double value) {
  const auto narrow = static_cast<double>(static_cast<float>(value));
  return std::bit_cast<uint64_t>(narrow) == std::bit_cast<uint64_t>(value);
}

}  // namespace

void TokenColumn::add_row(const std::vector<double>& values) {
  if (wide_.empty() && !std::all_of(values.begin(), values.end(), fits_float)) {
    wide_.assign(narrow_.begin(), narrow_.end());
    narrow_ = {};
    wide_.insert(wide_.end(), values.begin(), values.end());
  } else if (wide_.empty()) {
    for (const double value : values) narrow_.push_back(static_cast<float>(value));
  } else {
    wide_.insert(wide_.end(), values.begin(), values.end());
  }
  offsets_.push_back(offsets_.back() + values.size());
}

}  // namespace rlreplay::foreign
