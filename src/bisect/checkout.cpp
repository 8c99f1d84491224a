#include "src/bisect/checkout.h"

#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <vector>

#include "src/base/error.h"
#include "src/base/hash.h"
#include "src/base/input_file.h"

namespace fs = std::filesystem;

namespace rlreplay::bisect {
namespace {

constexpr size_t kMaxOverlayFile = size_t{1} << 30;

std::vector<Submodule> links_of(const Repository& repository, const std::string& checkout) {
  std::vector<Submodule> links;
  const std::string listing = repository.ask(checkout, {"ls-files", "--stage", "-z"});
  std::istringstream entries(listing);
  for (std::string entry; std::getline(entries, entry, '\0');) {
    const size_t tab = entry.find('\t');
    if (!entry.starts_with("160000 ") || tab == entry.npos) continue;
    links.push_back({entry.substr(tab + 1), entry.substr(7, entry.find(' ', 7) - 7), ""});
  }
  return links;
}

/// The names of submodules by their paths, as .gitmodules says.
std::map<std::string, std::string> names_of_links(const Repository& repository,
                                                  const std::string& checkout) {
  std::map<std::string, std::string> names;
  if (!fs::exists(checkout + "/.gitmodules")) return names;
  const std::string listing = repository.ask(
      checkout,
      {"config", "--file", ".gitmodules", "--null", "--get-regexp", R"(^submodule\..*\.path$)"});
  constexpr std::string_view kBegin = "submodule.", kEnd = ".path";
  std::istringstream entries(listing);
  for (std::string entry; std::getline(entries, entry, '\0');) {
    const size_t line = entry.find('\n');
    if (line == entry.npos) continue;
    const std::string key = entry.substr(0, line);
    names[entry.substr(line + 1)] =
        key.substr(kBegin.size(), key.size() - kBegin.size() - kEnd.size());
  }
  return names;
}

/// The clone that the user has of a submodule; empty where there is none.
std::string own_clone(const std::string& in_git, const std::string& in_checkout) {
  if (!in_git.empty() && fs::exists(in_git + "/HEAD")) return in_git;
  return fs::exists(in_checkout + "/.git") ? in_checkout : "";
}

void check_out(const Repository& repository, const Submodule& link, const std::string& place) {
  repository.ask(repository.folder(),
                 {"clone", "--quiet", "--shared", "--no-checkout", link.clone, place});
  try {
    repository.ask(place, {"checkout", "--quiet", "--detach", link.id});
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kEnvironment) throw;
    throw Error(ErrorCode::kEnvironment,
                "the submodule " + link.path + " at " + link.id.substr(0, 12) +
                    " cannot be checked out from the clone that is there (git fetch in it): " +
                    error.what(),
                link.clone);
  }
}

/// `clones`: where git keeps the clones of the submodules; `users`: the user's own checkout.
void fill(const Repository& repository, const std::string& checkout, const std::string& clones,
          const std::string& users, const Submodule& instead, std::set<std::string>& empty) {
  auto links = links_of(repository, checkout);
  if (links.empty()) return;
  const auto names = names_of_links(repository, checkout);
  for (Submodule& link : links) {
    const auto name = names.find(link.path);
    const std::string in_git = name == names.end() ? "" : clones + "/" + name->second;
    link.clone = own_clone(in_git, users + "/" + link.path);
    if (link.path == instead.path) link = instead;
    if (link.clone.empty()) {
      empty.insert(link.path);
      continue;
    }
    const std::string place = checkout + "/" + link.path;
    check_out(repository, link, place);
    fill(repository, place, in_git + "/modules", users + "/" + link.path, {}, empty);
  }
}

/// A link of the checkout is replaced, not followed: it may lead to the user's own files.
void lay_folder_over(const fs::path& from, const fs::path& to) {
  for (const auto& entry : fs::directory_iterator(from)) {
    const fs::path place = to / entry.path().filename();
    const auto there = fs::symlink_status(place);
    const bool folder = fs::is_directory(entry.symlink_status());
    if (fs::exists(there) && !(folder && fs::is_directory(there))) fs::remove_all(place);
    if (folder) {
      fs::create_directory(place);
      lay_folder_over(entry, place);
    } else {
      fs::copy(entry, place, fs::copy_options::copy_symlinks);
    }
  }
}

}  // namespace

std::set<std::string> fill_submodules(const Repository& repository, const std::string& worktree,
                                      const Submodule& instead) {
  std::set<std::string> empty;
  fill(repository, worktree, repository.common_folder() + "/modules", repository.folder(), instead,
       empty);
  return empty;
}

void lay_over(const std::string& overlay, const std::string& checkout) {
  try {
    lay_folder_over(overlay, checkout);
  } catch (const fs::filesystem_error& error) {
    throw Error(
        ErrorCode::kEnvironment,
        "the overlay cannot be copied: " + error.code().message() + ": " + error.path2().string(),
        overlay);
  }
}

std::string digest_of_folder(const std::string& folder) {
  std::error_code failed;
  std::map<std::string, std::string> files;
  for (fs::recursive_directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    const std::string path = entry->path().lexically_relative(folder);
    const auto status = entry->symlink_status();
    if (fs::is_symlink(status)) {
      files[path] = "link " + fs::read_symlink(entry->path()).string();
    } else if (fs::is_regular_file(status)) {
      const bool runs = (status.permissions() & fs::perms::owner_exec) != fs::perms::none;
      files[path] = (runs ? "program " : "file ") +
                    hash_of(read_file(entry->path(), kMaxOverlayFile, "an overlay")).hex();
    } else if (!fs::is_directory(status)) {
      throw Error(ErrorCode::kUnsupported, "an overlay holds files, folders and links only",
                  entry->path());
    }
  }
  if (failed) {
    throw Error(ErrorCode::kIncomplete, "this folder cannot be read: " + failed.message(), folder);
  }
  std::string text;
  for (const auto& [path, content] : files) text += path + '\0' + content + '\0';
  return hash_of(text).hex();
}

}  // namespace rlreplay::bisect
