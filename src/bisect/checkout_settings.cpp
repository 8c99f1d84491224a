#include "src/bisect/checkout_settings.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

namespace fs = std::filesystem;

namespace rlreplay::bisect {
namespace {

constexpr std::string_view kAttributesFile = "core.attributesfile";

/// The folders below one in which git keeps clones of submodules, those inside of them too.
void add_clones(const std::string& folder, std::set<std::string>& clones) {
  std::error_code ignored;
  for (fs::directory_iterator entry(folder, ignored), end; !ignored && entry != end;
       entry.increment(ignored)) {
    std::error_code absent;
    const std::string path = entry->path();
    if (!fs::is_directory(path, absent)) continue;
    const bool clone = fs::exists(path + "/HEAD", absent);
    if (clone) clones.insert(path);
    add_clones(clone ? path + "/modules" : path, clones);
  }
}

/// The submodules of a revision for which a repository lies in the user's checkout.
void add_checkouts(const Repository& repository, const Revision& revision,
                   std::set<std::string>& clones) {
  std::istringstream entries(
      repository.ask(repository.folder(), {"ls-tree", "-r", "-z", "--full-tree", revision.id}));
  for (std::string entry; std::getline(entries, entry, '\0');) {
    if (!entry.starts_with("160000 ")) continue;
    const std::string place = repository.folder() + "/" + entry.substr(entry.find('\t') + 1);
    std::error_code absent;
    if (fs::exists(place + "/.git", absent)) clones.insert(place);
  }
}

std::string text_of(const std::string& path) {
  std::error_code absent;
  if (!fs::is_regular_file(path, absent)) return {};
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Where git looks for attributes of all repositories, unless it is told of another file.
/// Source: gitattributes(5)
std::string usual_attributes() {
  const char *config = std::getenv("XDG_CONFIG_HOME"), *home = std::getenv("HOME");
  if (config != nullptr && *config != '\0') return std::string(config) + "/git/attributes";
  return home == nullptr ? "" : std::string(home) + "/.config/git/attributes";
}

/// `name` as git lists it: section and key in lower case.
bool fills_files(std::string_view name) {
  static constexpr std::array kNames = {std::string_view("core.autocrlf"),
                                        std::string_view("core.eol"),
                                        std::string_view("core.symlinks"),
                                        std::string_view("core.filemode"),
                                        std::string_view("core.sparsecheckout"),
                                        std::string_view("core.sparsecheckoutcone"),
                                        kAttributesFile};
  return name.starts_with("filter.") || std::ranges::find(kNames, name) != kNames.end();
}

/// The settings of git that count, and the files that they name.
std::string settings_text(const Repository& repository) {
  std::string text, attributes = usual_attributes();
  std::istringstream entries(repository.ask(repository.folder(), {"config", "--null", "--list"}));
  for (std::string entry; std::getline(entries, entry, '\0');) {
    const std::string name = entry.substr(0, entry.find('\n'));
    if (!fills_files(name)) continue;
    text += entry + '\0';
    if (name == kAttributesFile && entry.size() > name.size()) {
      attributes = entry.substr(name.size() + 1);
      if (attributes.starts_with("~/") && std::getenv("HOME") != nullptr) {
        attributes = std::getenv("HOME") + attributes.substr(1);
      }
    }
  }
  text += text_of(attributes) + '\0';
  for (const char* name : {"info/attributes", "info/sparse-checkout"}) {
    const std::string path = repository.ask(repository.folder(), {"rev-parse", "--git-path", name});
    const fs::path relative = path.substr(0, path.find('\n'));
    text += text_of(fs::path(repository.folder()) / relative) + '\0';
  }
  return text;
}

}  // namespace

std::string checkout_settings(const Repository& repository, const std::vector<Revision>& ends) {
  std::set<std::string> clones;
  add_clones(repository.common_folder() + "/modules", clones);
  for (const Revision& end : ends) add_checkouts(repository, end, clones);
  std::string text = settings_text(repository);
  for (const std::string& clone : clones) text += clone + '\0';
  return text;
}

}  // namespace rlreplay::bisect
