#pragma once

#include <CLI/App.hpp>

#include "src/replay/compare/dumps_difference.h"
#include "src/replay/verbs/verb.h"

/// What only a build with the engine can do. One without it (RLREPLAY_ENGINE=OFF) has the same
/// verbs, which refuse.
namespace rlreplay::replay {

/// Computes steps again that were recorded too coarsely; without the engine it says that it cannot.
[[nodiscard]] ElementFinder element_finder();

}  // namespace rlreplay::replay
