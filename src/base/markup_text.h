#pragma once

#include <string>
#include <string_view>

namespace rlreplay {

/// For HTML and XML; characters that neither may hold are shown as \uXXXX.
std::string markup_text(std::string_view text);

}  // namespace rlreplay
