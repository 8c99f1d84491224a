#include "src/base/descendants.h"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include <sys/prctl.h>
#include <unistd.h>

#include "src/base/number_text.h"

namespace rlreplay {
namespace {

/// The parent of a process that is no zombie; 0 where there is none.
pid_t parent_of(const std::string& id) {
  std::ifstream file("/proc/" + id + "/stat");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  const size_t name_end = text.rfind(')');  // of a name that may hold anything
  if (name_end == text.npos || text.size() < name_end + 5 || text[name_end + 2] == 'Z') return 0;
  pid_t parent = 0;
  std::from_chars(text.data() + name_end + 4, text.data() + text.size(), parent);
  return parent;
}

}  // namespace

bool adopt_orphans() { return ::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0; }

std::vector<pid_t> descendants() {
  std::multimap<pid_t, pid_t> children;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename();
    const auto id = parse_number<pid_t>(name);
    if (!id) continue;
    if (const pid_t parent = parent_of(name); parent > 0) children.emplace(parent, *id);
  }
  std::vector<pid_t> out;
  const auto take = [&](pid_t parent) {
    const auto [begin, end] = children.equal_range(parent);
    for (auto it = begin; it != end; ++it) out.push_back(it->second);
    children.erase(parent);
  };
  take(::getpid());
  for (size_t i = 0; i < out.size(); ++i) take(out[i]);
  return out;
}

}  // namespace rlreplay
