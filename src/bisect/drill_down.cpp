#include "src/bisect/drill_down.h"

#include "src/bisect/recorded_steps.h"

namespace rlreplay::bisect {

replay::DumpsDifference compare_dumps(const std::string& a, const std::string& b,
                                      const replay::ElementFinder& find_element) {
  return replay::compare_dumps(open_ended(a), open_ended(b), {}, find_element);
}

}  // namespace rlreplay::bisect
