#include "src/replay/gate/recorded_commit.h"

#include <filesystem>
#include <utility>

#include "src/base/run_git.h"
#include "src/replay/gate/place.h"

namespace fs = std::filesystem;

namespace rlreplay::gate {

std::optional<std::string> ask_git(const std::string& folder,
                                   const std::vector<std::string>& arguments) {
  ProcessResult result = run_git(folder, arguments);
  if (!result.succeeded()) return std::nullopt;
  if (result.output.ends_with('\n')) result.output.pop_back();
  return std::move(result.output);
}

std::optional<Checkout> find_checkout(const std::string& path) {
  const std::string folder = fs::absolute(path).parent_path().string();
  const std::optional<std::string> top = ask_git(folder, {"rev-parse", "--show-toplevel"});
  if (!top) return std::nullopt;
  Checkout out;
  out.commit = ask_git(folder, {"rev-parse", "--verify", "--quiet", "HEAD"}).value_or("");
  const std::string changed =
      ask_git(*top, {"diff", "--name-only", "-z", "--no-ext-diff", "HEAD"}).value_or("");
  for (size_t begin = 0; begin < changed.size() && out.changed.empty();) {
    const size_t end = std::min(changed.find('\0', begin), changed.size());
    const std::string name = changed.substr(begin, end - begin);
    if (!is_golden_file(*top + "/" + name)) out.changed = name;
    begin = end + 1;
  }
  return out;
}

}  // namespace rlreplay::gate
