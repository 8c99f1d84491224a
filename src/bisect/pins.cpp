#include <array>
#include <regex>
#include <sstream>

#include "src/bisect/git.h"

namespace rlreplay::bisect {
namespace {

/// Files that say which versions of others are used.
bool is_pin_file(const std::string& path) {
  static const std::regex names(
      R"((.*/)?(requirements[^/]*\.(txt|in)|constraints[^/]*\.txt|[^/]*\.lock|[^/]*lock\.json|)"
      R"(pyproject\.toml|setup\.(cfg|py)|environment[^/]*\.ya?ml|[^/]*Dockerfile[^/]*|)"
      R"(package\.json|Cargo\.toml|go\.(mod|sum)|conanfile\.[^/]*|vcpkg\.json))");
  return std::regex_match(path, names);
}

/// The first line that was taken out of a file, and the first that came in.
Pin changed_line(const std::string& diff, const std::string& path) {
  Pin pin{path, "", "", false};
  std::istringstream lines(diff);
  bool within = false;
  for (std::string line; std::getline(lines, line);) {
    within = within || line.starts_with("@@");
    if (!within || line.size() < 2) continue;
    std::string& side = line[0] == '-' ? pin.before : pin.after;
    if ((line[0] == '-' || line[0] == '+') && side.empty()) side = line.substr(1);
  }
  return pin;
}

}  // namespace

std::vector<Pin> Repository::changed_pins(const Revision& before, const Revision& after) const {
  std::vector<Pin> pins;
  const std::string raw =
      ask(folder_, {"diff", "--raw", "-z", "--no-abbrev", "--no-renames", before.id, after.id});
  std::istringstream fields(raw);
  for (std::string head, path;
       std::getline(fields, head, '\0') && std::getline(fields, path, '\0');) {
    std::istringstream words(head);
    std::array<std::string, 4> part;  // mode before, mode after, content before, content after
    for (std::string& word : part) words >> word;
    if (part[0] == ":160000" && part[1] == "160000") {
      pins.push_back({path, part[2], part[3], true});
    } else if (is_pin_file(path)) {
      pins.push_back(
          changed_line(ask(folder_, {"diff", "--unified=0", "--no-color", "--no-ext-diff",
                                     "--no-textconv", before.id, after.id, "--", path}),
                       path));
    }
  }
  return pins;
}

}  // namespace rlreplay::bisect
