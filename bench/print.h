#pragma once

#include <string>

#include "bench/measure.h"
#include "bench/peaks.h"

namespace rlreplay::bench {

/// The lines of a table of 100 columns.
[[nodiscard]] std::string table_head(const Peaks& peaks, int threads, std::string_view kernels);
[[nodiscard]] std::string table_line(const Item& item, const Outcome& outcome, const Peaks& peaks);

/// One JSON object on a line; null where there is nothing to say. `ratio` and the plain rates are
/// medians, `*_best` the best repetition.
[[nodiscard]] std::string json_line(const Item& item, const Outcome& outcome, const Peaks& peaks,
                                    int threads);

}  // namespace rlreplay::bench
