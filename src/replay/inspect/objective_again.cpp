#include "src/replay/inspect/objective_again.h"

#include <algorithm>
#include <set>
#include <variant>
#include <vector>

#include "src/replay/options/options.h"

namespace rlreplay::replay {
namespace {

/// Takes ` --name VALUE`, or a flag ` --name`, out of a command.
void take_out(std::string& command, const std::string& name, bool flag) {
  const std::string word = " --" + name;
  for (size_t at = command.find(word); at != command.npos; at = command.find(word, at + 1)) {
    size_t end = at + word.size();
    if (end < command.size() && command[end] != ' ' && command[end] != '=') continue;
    const bool joined = end < command.size() && command[end] == '=';
    end = std::min(command.find(' ', flag || joined ? end : end + 1), command.size());
    command.erase(at, end - at);
    return;
  }
}

/// Puts a setting, `--name`, `--name VALUE` or `without --name`, into a command. False where no
/// option says it.
bool put_setting(std::string setting, const ObjectiveOptions& options, std::string& command) {
  const bool without = setting.starts_with("without ");
  if (without) setting.erase(0, setting.find(' ') + 1);
  const size_t space = setting.find(' ');
  if (!setting.starts_with("--") || setting.find(' ', space + 1) < setting.size()) return false;
  const std::string name = setting.substr(2, space == setting.npos ? space : space - 2);
  const Option* option = find_option(name);
  if (option == nullptr) return false;
  const auto* flag = std::get_if<bool RunOptions::*>(&option->field);
  if (without && flag == nullptr) return false;
  take_out(command, name, flag != nullptr);
  const bool off = without && options.recorded && !((*options.recorded).**flag);
  if (!off || command.find(" --config") != command.npos) {
    command += " " + setting + (without ? "=false" : "");
  }
  return true;
}

}  // namespace

std::string flags_with_found(const std::string& given, const ObjectiveOptions& options,
                             std::span<const ObjectiveStep> steps) {
  if (given.find_first_of("'\"") != given.npos) return given;  // words that hold blanks
  std::set<std::vector<std::string>> found;
  for (const ObjectiveStep& step : steps) {
    std::set<std::string> explained;
    for (const Explanation& e : step.explanations) {
      if (!e.fails_in.empty() || !e.left.empty()) return given;
      found.insert(e.settings);
      explained.insert(e.quantities.begin(), e.quantities.end());
    }
    for (const Quantity& of : step.quantities) {
      if (of.is_finding() && !explained.contains(of.name)) return given;
    }
  }
  if (found.size() != 1) return given;
  std::string out = given;
  for (const std::string& setting : *found.begin()) {
    if (!put_setting(setting, options, out)) return given;
  }
  return out;
}

}  // namespace rlreplay::replay
