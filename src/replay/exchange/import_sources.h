#pragma once

#include <optional>
#include <string>
#include <vector>

#include "format/foreign/tree_check.h"
#include "src/replay/exchange/source_files.h"

namespace rlreplay::replay {

/// The files of torch.save that an import reads, in the order in which it reads them.
/// Errors: kUsage where there are none or a path names a file of another kind; those of
/// find_sources and check_ranks.
[[nodiscard]] std::vector<std::vector<SourceFile>> sources_of_import(
    const std::vector<std::string>& paths);

/// Refuses a file by its first bytes: lines of JSON are known by their name alone.
/// Errors: kUsage where a file that is named otherwise begins as they do.
void check_no_unnamed_lines(const std::string& path);

/// The files beside them that an import leaves behind: an import that dropped them silently would
/// be believed. Nothing where there are none.
[[nodiscard]] std::optional<foreign::Problem> left_behind(const std::vector<std::string>& paths);

}  // namespace rlreplay::replay
