#pragma once

#include <string>

#include "src/replay/compare/dumps_difference.h"

namespace rlreplay::replay {

/// `identical`, or `identical in content; 2 kept files differ`: what is kept beside the content is
/// not the same
[[nodiscard]] std::string identical_verdict(const DumpsDifference& difference);

/// `differ: 1 option, 2 rollouts, 3 steps`
[[nodiscard]] std::string diff_verdict(const DumpsDifference& difference);

/// In one line where two dumps part: the first event that differs, else the first value; empty
/// where neither does.
[[nodiscard]] std::string first_difference_line(const DumpsDifference& difference);

/// What came first, for people, in the order of causes and in at most 20 lines unless `all` is
/// asked for. `verdict` is the first line; `command` shows it again.
[[nodiscard]] std::string diff_text(const DumpsDifference& difference, const std::string& verdict,
                                    const std::string& command, bool all);

/// The first value that differs, where that says more than causes and events do; else empty.
[[nodiscard]] std::string first_value_text(const DumpsDifference& difference);

/// One line: rlreplay.diff/1.
[[nodiscard]] std::string diff_json(const DumpsDifference& difference, const std::string& command);

}  // namespace rlreplay::replay
