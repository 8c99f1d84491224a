#include "src/base/descendants.h"

#include <charconv>
#include <cstdio>
#include <map>
#include <memory>
#include <string_view>

#include <dirent.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "src/base/descriptor.h"
#include "src/base/number_text.h"

namespace rlreplay {
namespace {

/// The parent of a process that is no zombie; 0 where there is none, or none any more: it may end
/// at any moment, and then reading fails.
pid_t parent_of(pid_t id) {
  char path[32], text[512];
  std::snprintf(path, sizeof path, "/proc/%d/stat", static_cast<int>(id));
  const Descriptor file(::open(path, O_RDONLY | O_CLOEXEC));
  const ssize_t length = file ? ::read(file.get(), text, sizeof text) : 0;
  if (length <= 0) return 0;
  const std::string_view stat(text, static_cast<size_t>(length));
  const size_t name_end = stat.rfind(')');  // of a name that may hold anything
  if (name_end == stat.npos || stat.size() < name_end + 5 || stat[name_end + 2] == 'Z') return 0;
  pid_t parent = 0;
  std::from_chars(stat.data() + name_end + 4, stat.data() + stat.size(), parent);
  return parent;
}

}  // namespace

bool adopt_orphans() { return ::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0; }

std::vector<pid_t> descendants() {
  std::multimap<pid_t, pid_t> children;
  const std::unique_ptr<DIR, int (*)(DIR*)> processes(::opendir("/proc"), ::closedir);
  while (const dirent* entry = processes ? ::readdir(processes.get()) : nullptr) {
    const auto id = parse_number<pid_t>(entry->d_name);
    if (!id) continue;
    if (const pid_t parent = parent_of(*id); parent > 0) children.emplace(parent, *id);
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
