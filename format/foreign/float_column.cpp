#include "format/foreign/float_column.h"

#include <algorithm>

#include "format/foreign/half.h"

namespace rlreplay::foreign {

void FloatColumn::add_row(const std::vector<double>& values) {
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
