#include "src/replay/gate/commit_run.h"

#include <algorithm>
#include <filesystem>

#include "src/base/process.h"
#include "src/base/run_git.h"
#include "src/base/temporary_folder.h"
#include "src/replay/gate/outcome.h"
#include "src/replay/gate/recorded_commit.h"
#include "src/replay/gate/run_values.h"

namespace fs = std::filesystem;

namespace rlreplay::gate {
namespace {

bool agree(const std::vector<Tolerance>& tolerances, const GoldenEntries& a,
           const GoldenEntries& b) {
  return std::ranges::all_of(differences(tolerances, a, b), &JudgedDifference::within);
}

/// A worktree of a commit, removed at the object's end.
class CommitTree {
 public:
  CommitTree(std::string top, const std::string& commit)
      : top_(std::move(top)), folder_("rlreplay-commit"), path_(folder_.path() + "/tree") {
    there_ = ask_git(top_, {"worktree", "add", "--detach", "--quiet", path_, commit}).has_value();
  }
  ~CommitTree() {
    if (there_)
      static_cast<void>(ask_git(top_, {"worktree", "remove", "--force", "--force", path_}));
  }
  CommitTree(const CommitTree&) = delete;
  CommitTree& operator=(const CommitTree&) = delete;

  bool there() const { return there_; }
  const std::string& path() const { return path_; }

 private:
  std::string top_;
  TemporaryFolder folder_;
  std::string path_;
  bool there_ = false;
};

/// Why a build failed; empty: it did not.
std::string build(const CommitRecipe& recipe, const std::string& folder) {
  if (recipe.build.empty()) return "";
  Command command = shell_command(recipe.build);
  clear_git_variables(command);
  command.folder = folder;
  ProcessLimits limits;
  limits.time = recipe.time_limit;
  const ProcessResult result = run_process(command, "", limits);
  return result.succeeded() ? "" : "its build " + result.describe();
}

CommitRun run_there(const std::vector<Tolerance>& tolerances, const CommitRecipe& recipe,
                    const std::string& folder) {
  CommitRun out;
  for (int i = 0; i < 2; ++i) {
    CommandRun ran = run_command(recipe.run, recipe.time_limit, folder);
    const measure::Measurement& run = ran.measurement;
    if (run.kind != measure::RunKind::kRan) return {{}, "its run: " + run.problem};
    if (run.evidence == measure::Evidence::kExitCode) {
      return {{}, "its run: it left no values, and " + ran.ended};
    }
    if (has_failed(run)) return {{}, "its run: it failed: it " + ran.ended};
    GoldenEntries values = values_of(run);
    if (out.values && !agree(tolerances, *out.values, values))
      return {{}, "its runs do not repeat"};
    out.values = std::move(values);
    out.dump = std::move(ran.dump);
  }
  return out;
}

}  // namespace

CommitRun run_commit(const std::vector<Tolerance>& tolerances, const CommitRecipe& recipe,
                     const std::string& from) {
  const auto top = ask_git(from, {"rev-parse", "--show-toplevel"});
  if (!top) return {{}, from + " lies in no checkout of git"};
  const auto here = working_folder(from);
  if (!here) return {{}, "the working folder is not in the checkout " + *top};
  const CommitTree tree(*top, recipe.commit);
  if (!tree.there()) {
    return {{},
            "git cannot check out the commit " + recipe.commit.substr(0, 12) +
                ", which a shallow clone lacks"};
  }
  const std::string folder = (fs::path(tree.path()) / *here).lexically_normal().string();
  if (!fs::is_directory(folder)) return {{}, "the commit has no folder " + *here};
  if (std::string why = build(recipe, tree.path()); !why.empty()) return {{}, std::move(why)};
  return run_there(tolerances, recipe, folder);
}

}  // namespace rlreplay::gate
