#pragma once

#include <string>

namespace rlreplay::engine::test {

/// docs/events.md, printed from the table of events.
std::string event_document();

}  // namespace rlreplay::engine::test
