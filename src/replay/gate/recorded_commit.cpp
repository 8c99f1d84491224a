#include "src/replay/gate/recorded_commit.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "src/base/ascii.h"
#include "src/base/run_git.h"
#include "src/base/shell.h"
#include "src/replay/gate/place.h"

namespace fs = std::filesystem;

namespace rlreplay::gate {
namespace {

constexpr std::array<std::string_view, 32> kCode = {
    ".bash", ".bzl", ".c",   ".cc",  ".cfg",   ".cmake", ".cpp",   ".cu",   ".cuh",  ".cxx", ".go",
    ".h",    ".hh",  ".hpp", ".ini", ".ipynb", ".java",  ".jinja", ".jl",   ".js",   ".lua", ".pl",
    ".py",   ".pyi", ".pyx", ".r",   ".rb",    ".rs",    ".sh",    ".toml", ".yaml", ".yml"};

/// Whether commands name a file: by its name, as a word.
bool is_named(const std::string& name, const std::string& commands) {
  const auto is_end = [&](size_t at) {
    return at >= commands.size() || !(is_word_character(commands[at]) || commands[at] == '-');
  };
  for (size_t at = 0; (at = commands.find(name, at)) != commands.npos; ++at) {
    if ((at == 0 || is_end(at - 1)) && is_end(at + name.size())) return true;
  }
  return false;
}

/// Whether a file is code or settings by its name's end, may be executed, or is named by the
/// commands of a run: what this may read, and not what it writes.
bool is_code(const fs::path& file, const std::string& commands) {
  std::error_code absent;
  const fs::file_status status = fs::status(file, absent);
  if (!fs::is_regular_file(status) || is_golden_file(file.string())) return false;
  constexpr fs::perms kRuns =
      fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec;
  return (status.permissions() & kRuns) != fs::perms::none ||
         std::ranges::find(kCode, lower_case(file.extension().string())) != kCode.end() ||
         is_named(file.filename().string(), commands);
}

}  // namespace

std::optional<std::string> ask_git(const std::string& folder,
                                   const std::vector<std::string>& arguments) {
  ProcessResult result = run_git(folder, arguments);
  if (!result.succeeded()) return std::nullopt;
  if (result.output.ends_with('\n')) result.output.pop_back();
  return std::move(result.output);
}

std::optional<Checkout> find_checkout(const std::string& path, const std::string& commands) {
  const std::string folder = fs::absolute(path).parent_path().string();
  const std::optional<std::string> top = ask_git(folder, {"rev-parse", "--show-toplevel"});
  if (!top) return std::nullopt;
  const auto first = [&](const std::vector<std::string>& listed, const auto& is_meant) {
    const std::string names = ask_git(*top, listed).value_or("");
    for (size_t begin = 0; begin < names.size();) {
      const size_t end = std::min(names.find('\0', begin), names.size());
      std::string name = names.substr(begin, end - begin);
      if (is_meant(*top + "/" + name)) return name;
      begin = end + 1;
    }
    return std::string();
  };
  Checkout out;
  out.commit = ask_git(folder, {"rev-parse", "--verify", "--quiet", "HEAD"}).value_or("");
  out.changed = first({"diff", "--name-only", "-z", "--no-ext-diff", "HEAD"},
                      [](const std::string& file) { return !is_golden_file(file); });
  if (commands.empty()) return out;
  out.unknown = first({"ls-files", "--others", "--exclude-standard", "-z"},
                      [&](const std::string& file) { return is_code(file, commands); });
  return out;
}

std::optional<std::string> working_folder(const std::string& folder) {
  const std::optional<std::string> top = ask_git(folder, {"rev-parse", "--show-toplevel"});
  if (!top) return std::nullopt;
  const fs::path here = fs::current_path().lexically_relative(fs::weakly_canonical(*top));
  if (here.empty() || *here.begin() == "..") return std::nullopt;
  return here.string();
}

std::string uncommitted(const Checkout& checkout) {
  if (!checkout.changed.empty()) return shell_word(checkout.changed) + " is not as committed";
  return checkout.unknown.empty() ? "" : shell_word(checkout.unknown) + " is not in git";
}

}  // namespace rlreplay::gate
