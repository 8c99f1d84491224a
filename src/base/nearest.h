#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace rlreplay {

/// What a misspelt word most probably means: the candidate with the fewest letters to change, where
/// those are no more than a third of the word.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates);

}  // namespace rlreplay
