#include "src/replay/record/chosen_ids.h"

#include "src/base/error.h"

namespace rlreplay::replay {
namespace {

constexpr int kMaxRanges = 8;

/// "0..3, 7"
std::string ranges(const std::set<uint64_t>& ids) {
  std::string out;
  int count = 0;
  for (auto at = ids.begin(); at != ids.end(); ++at) {
    if (++count > kMaxRanges) return out + ", ..., " + std::to_string(*ids.rbegin());
    const uint64_t first = *at;
    uint64_t last = first;
    for (auto next = std::next(at); next != ids.end() && *next == last + 1; ++next)
      last = *(at = next);
    out += (out.empty() ? "" : ", ") + std::to_string(first);
    if (last > first) out += ".." + std::to_string(last);
  }
  return out;
}

}  // namespace

void check_chosen(const std::string& what, const std::set<uint64_t>& asked,
                  const std::set<uint64_t>& there, const std::string& where) {
  for (const uint64_t id : asked) {
    if (there.contains(id)) continue;
    throw Error(
        ErrorCode::kUsage,
        "there is no " + what + " " + std::to_string(id) +
            (there.empty() ? ": no " + what + "s are recorded" : "; there are " + ranges(there)),
        where);
  }
}

}  // namespace rlreplay::replay
