#include "src/base/descendants.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "src/base/parse_number.h"

namespace rlreplay {
namespace {

namespace fs = std::filesystem;

/// The parent of a process that is no zombie; 0 where there is none.
pid_t parent_of(const std::string& id) {
  std::ifstream file("/proc/" + id + "/stat");
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(')');  // of a name that may hold anything
  if (name_end == text.npos || text.size() < name_end + 5 || text[name_end + 2] == 'Z') return 0;
  pid_t parent = 0;
  std::from_chars(text.data() + name_end + 4, text.data() + text.size(), parent);
  return parent;
}

}  // namespace

std::vector<pid_t> descendants() {
  std::multimap<pid_t, pid_t> children;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename();
    const auto id = parse_number<pid_t>(name);
    if (!id) continue;
    if (const pid_t parent = parent_of(name); parent > 0) children.emplace(parent, *id);
  }
  std::vector<pid_t> out;
  const auto add = [&](pid_t parent) {
    const auto [begin, end] = children.equal_range(parent);
    for (auto it = begin; it != end; ++it) out.push_back(it->second);
  };
  add(::getpid());
  for (size_t i = 0; i < out.size(); ++i) add(out[i]);
  return out;
}

void adopt_orphans() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

void signal_descendants(int signal) {
  for (const pid_t id : descendants()) ::kill(id, signal);
}

}  // namespace rlreplay
