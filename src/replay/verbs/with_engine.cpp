#include "src/replay/rerun/recomputed_difference.h"
#include "src/replay/verbs/engine_half.h"

namespace rlreplay::replay {

ElementFinder element_finder() { return find_element; }

}  // namespace rlreplay::replay
