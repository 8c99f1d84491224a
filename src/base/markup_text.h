#pragma once

#include <string>
#include <string_view>

namespace rlreplay {

/// The text as HTML and XML write it; characters that neither may hold are shown as \uXXXX.
[[nodiscard]] std::string markup_text(std::string_view text);

}  // namespace rlreplay
