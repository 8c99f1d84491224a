#include <cstdio>

#include "tests/engine/event_document.h"

/// usage: print_event_document > docs/events.md
int main() { std::fputs(rlreplay::engine::test::event_document().c_str(), stdout); }
