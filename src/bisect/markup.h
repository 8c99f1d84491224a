#pragma once

#include <string>

#include "src/base/markup_text.h"

namespace rlreplay::bisect {

/// A whole HTML page, which loads nothing else. `title` and `body` are texts and HTML.
[[nodiscard]] std::string html_page(const std::string& title, const std::string& body);

}  // namespace rlreplay::bisect
