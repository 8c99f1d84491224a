#include "src/bisect/git.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include <unistd.h>

#include "src/base/error.h"
#include "src/base/hash.h"
#include "src/base/run_git.h"

namespace fs = std::filesystem;
namespace rlreplay::bisect {
namespace {

constexpr size_t kFields = 6;
constexpr std::chrono::hours kMostTime{1};  // of a checkout that hangs, on a network too
constexpr const char* kFormat = "--format=tformat:%H%x00%T%x00%P%x00%an%x00%ad%x00%s";

ProcessResult ask_git(const std::string& folder, const std::vector<std::string>& arguments,
                      int stop_fd) {
  ProcessLimits limits;
  limits.time = kMostTime;
  limits.max_output = size_t{1} << 30;
  limits.stop_fd = stop_fd;
  ProcessResult result = run_git(folder, arguments, limits);
  if (result.end == ProcessResult::End::kStopped) throw interrupted();
  return result;
}

/// Whether there is a git where programs are looked for.
bool has_git() {
  const char* variable = std::getenv("PATH");
  std::istringstream folders(variable != nullptr ? variable : "/bin:/usr/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path path = fs::path(folder) / "git";
    std::error_code none;
    if (fs::is_regular_file(path, none) && ::access(path.c_str(), X_OK) == 0) return true;
  }
  return false;
}

/// The fields of records, each of which ends with a NUL.
std::vector<std::string> split_fields(const std::string& text) {
  std::vector<std::string> fields;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\0', begin);
    fields.push_back(text.substr(begin, end - begin));
    if (end == text.npos) break;
    begin = end + 1;
  }
  return fields;
}

}  // namespace

Repository Repository::open(const std::string& folder, int stop_fd) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    throw Error(ErrorCode::kIncomplete, "there is no such folder: name a repository by --repo",
                folder);
  }
  const ProcessResult result = ask_git(folder, {"rev-parse", "--git-common-dir"}, stop_fd);
  const bool is_none = result.error_tail.find("not a git repository") != std::string::npos;
  if (result.end == ProcessResult::End::kExit && is_none) {
    throw Error(ErrorCode::kUsage,
                "this is no git repository: name one by --repo (git " + result.describe() + ")",
                folder);
  }
  if (!result.succeeded() || result.output.empty()) {
    throw Error(ErrorCode::kEnvironment, "git rev-parse " + result.describe(), folder);
  }
  const fs::path common = result.output.substr(0, result.output.size() - 1);
  return {fs::absolute(folder), fs::weakly_canonical(folder / common), stop_fd};
}

ProcessResult Repository::run(std::vector<std::string> arguments) const {
  return ask_git(folder_, arguments, stop_fd_);
}

std::vector<Revision> Repository::log(std::vector<std::string> arguments) const {
  std::vector<std::string> all = {"log",        "-z",           "--no-show-signature",
                                  "--no-color", "--date=short", "--encoding=UTF-8",
                                  kFormat,      "--no-patch"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  all.emplace_back("--");
  const ProcessResult result = run(all);
  const auto fields = split_fields(result.output);
  if (!result.succeeded() || fields.size() % kFields != 0) {
    throw Error(ErrorCode::kEnvironment, "git log " + result.describe(), folder_);
  }
  std::vector<Revision> revisions;
  for (size_t i = 0; i < fields.size(); i += kFields) {
    revisions.push_back({fields[i], fields[i + 1], fields[i + 2].substr(0, fields[i + 2].find(' ')),
                         fields[i + 3], fields[i + 4], fields[i + 5]});
  }
  return revisions;
}

Revision Repository::resolve(const std::string& name) const {
  const ProcessResult result =
      run({"rev-parse", "--verify", "--quiet", "--end-of-options", name + "^{commit}"});
  if (result.end != ProcessResult::End::kExit) {
    throw Error(ErrorCode::kEnvironment, "git rev-parse " + result.describe(), folder_);
  }
  // `^name` is a set of commits, which rev-parse gives back with its sign.
  if (!result.succeeded() || result.output.empty() || result.output[0] == '^') {
    throw Error(ErrorCode::kUsage, "`" + name + "` names no commit of this repository", folder_);
  }
  return log({"-1", result.output.substr(0, result.output.find('\n'))}).at(0);
}

std::optional<Revision> try_resolve(const std::string& folder, const std::string& name,
                                    int stop_fd) {
  if (!has_git()) return std::nullopt;
  try {
    return Repository::open(folder, stop_fd).resolve(name);
  } catch (const Error& error) {
    // No folder, no repository, no such commit. A git that fails is no answer.
    if (error.code() != ErrorCode::kIncomplete && error.code() != ErrorCode::kUsage) throw;
    return std::nullopt;
  }
}

std::vector<Revision> Repository::history(const Revision& good, const Revision& bad) const {
  auto revisions = log({"--first-parent", "--reverse", good.id + ".." + bad.id});
  if (!revisions.empty() && revisions[0].parent == good.id) {
    revisions.insert(revisions.begin(), good);
    return revisions;
  }
  if (good.id == bad.id) {
    throw Error(ErrorCode::kUsage, "both ends are the same commit, " + good.short_id(), folder_);
  }
  if (revisions.empty()) {
    throw Error(ErrorCode::kUsage,
                "the good end " + good.short_id() + " comes after the bad end " + bad.short_id() +
                    ": to find what changed it back, swap the ends",
                folder_);
  }
  const std::string& fork = revisions[0].parent;
  throw Error(ErrorCode::kUsage,
              "the good end " + good.short_id() + " is not on the first-parent history of " +
                  bad.short_id() +
                  (fork.empty() ? ", as far as this clone has it"
                                : "; try " + fork.substr(0, 12) + ", which is and comes before it"),
              folder_);
}

std::string Repository::ask(const std::string& folder,
                            const std::vector<std::string>& arguments) const {
  ProcessResult result = ask_git(folder, arguments, stop_fd_);
  if (result.succeeded()) return std::move(result.output);
  throw Error(ErrorCode::kEnvironment, "git " + arguments[0] + " " + result.describe(), folder);
}

std::string Repository::listing(const Revision& revision,
                                const std::vector<std::string>& paths) const {
  std::vector<std::string> words = {"ls-tree", "-z", "--full-name", revision.id, "--"};
  words.insert(words.end(), paths.begin(), paths.end());
  return ask(folder_, words);
}

std::string Repository::store() const { return common_folder_ + "/rlbisect"; }

std::vector<std::vector<Revision>> Repository::branches(const Revision& merge) const {
  const ProcessResult result = run({"rev-list", "--no-walk", "--parents", merge.id});
  if (!result.succeeded()) {
    throw Error(ErrorCode::kEnvironment, "git rev-list " + result.describe(), folder_);
  }
  std::istringstream words(result.output);
  std::string word, first;
  words >> word >> first;
  std::vector<std::vector<Revision>> branches;
  while (words >> word) {
    auto commits = log({"--first-parent", "--reverse", first + ".." + word});
    if (commits.empty()) continue;
    const std::string fork = commits[0].parent;
    commits.insert(commits.begin(), fork.empty() ? Revision() : resolve(fork));
    branches.push_back(std::move(commits));
  }
  return branches;
}

std::vector<Revision> Repository::contents(const Revision& of,
                                           const std::vector<Revision>& without) const {
  std::vector<std::string> words = {"--topo-order", "--reverse", of.id};
  for (const Revision& other : without) words.push_back("^" + other.id);
  return log(std::move(words));
}

}  // namespace rlreplay::bisect
