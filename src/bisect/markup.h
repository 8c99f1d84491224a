#pragma once

#include <string>
#include <string_view>

namespace rlreplay::bisect {

/// For HTML and XML; characters that neither may hold are shown as \uXXXX.
std::string markup_text(std::string_view text);

/// A whole HTML page, which loads nothing else. `title` and `body` are texts and HTML.
std::string html_page(const std::string& title, const std::string& body);

}  // namespace rlreplay::bisect
