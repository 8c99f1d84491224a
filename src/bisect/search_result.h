#pragma once

#include <string_view>

namespace rlreplay::bisect {

/// How a search ended, over revisions or over settings.
enum class SearchResult { kFound, kNothing, kCannotJudge };

[[nodiscard]] constexpr std::string_view to_string(SearchResult result) {
  switch (result) {
    case SearchResult::kFound:
      return "found";
    case SearchResult::kNothing:
      return "nothing found";
    case SearchResult::kCannotJudge:
      break;
  }
  return "cannot judge";
}

}  // namespace rlreplay::bisect
