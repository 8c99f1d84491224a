#include "src/bisect/editable_install.h"

#include <cstdio>

#include "src/base/terminal.h"

namespace rlreplay::bisect {
namespace {

// An environment inside of the checkout is no import from it.
constexpr const char* kLookup = R"(
import os, sys
root, own = (os.path.realpath(p) + os.sep for p in (sys.argv[1], sys.prefix))
for entry in filter(None, sys.path):
    place = os.path.realpath(entry) + os.sep
    if place.startswith(root) and not place.startswith(own):
        print(entry)
        break
    names = os.listdir(entry) if os.path.isdir(entry) else []
    finders = [os.path.join(entry, n) for n in names if n.startswith("__editable__") and n.endswith(".py")]
    found = [f for f in finders if root[:-1] in open(f, errors="replace").read()]
    if found:
        print(found[0])
        break
)";

}  // namespace

std::string find_editable_install(const Repository& repository) {
  try {
    std::string root = repository.ask(repository.folder(), {"rev-parse", "--show-toplevel"});
    root = root.substr(0, root.find('\n'));
    if (root.empty()) return {};
    ProcessLimits limits;
    limits.time = std::chrono::seconds(20);
    limits.stop_fd = repository.stop_fd();
    const ProcessResult result = run_process({{"python3", "-c", kLookup, root}, "/"}, "", limits);
    if (result.end == ProcessResult::End::kStopped) throw interrupted();
    return result.output.substr(0, result.output.find('\n'));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kEnvironment) throw;
    return {};  // no checkout, or no python3
  }
}

void warn_of_editable_install(const Repository& repository) {
  const std::string found = find_editable_install(repository);
  if (found.empty()) return;
  std::fprintf(
      stderr,
      "rlbisect: python3 imports from the checkout, by %s: all revisions would run what is "
      "there now; install the worktree in --build, or set PYTHONPATH in --run\n",
      terminal_text(found).c_str());
}

}  // namespace rlreplay::bisect
