#include "src/replay/gate/environment.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include <gnu/libc-version.h>
#include <sys/utsname.h>

#include "src/base/error.h"

namespace rlreplay::gate {
namespace {

constexpr const char* kMore = "RLREPLAY_GOLDEN_ENVIRONMENT";
constexpr const char* kClasses = "RLREPLAY_GOLDEN_CLASSES";
constexpr std::string_view kInClass = "abcdefghijklmnopqrstuvwxyz0123456789._-";

std::vector<std::string> words_of(const char* variable) {
  const char* text = std::getenv(variable);
  std::istringstream words(text == nullptr ? "" : text);
  std::vector<std::string> out;
  for (std::string word; words >> word;) out.push_back(word);
  return out;
}

std::string architecture() {
  utsname system{};
  uname(&system);
  return system.machine;
}

/// A text of the machine as the name of a class.
std::string class_of(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (kInClass.find(c) == kInClass.npos) c = '-';
  }
  return text;
}

}  // namespace

GoldenEntries environment_now(const replay::Computing& computing) {
  GoldenEntries out = {{"architecture", architecture()},
                       {"libc", gnu_get_libc_version()},
                       {"processor", replay::processor_name()}};
  if (!computing.instructions.empty()) out["instructions"] = computing.instructions;
  if (!computing.torch.empty()) out["torch"] = computing.torch;
  for (const std::string& word : words_of(kMore)) {
    const size_t equal = word.find('=');
    if (equal == word.npos || equal == 0 || equal + 1 == word.size()) {
      throw Error(ErrorCode::kUsage,
                  "\"" + word + "\" is no NAME=VALUE: " + kMore + " holds words as driver=550.54");
    }
    out[word.substr(0, equal)] = word.substr(equal + 1);
  }
  return out;
}

std::vector<std::string> classes_now(const replay::Computing& computing) {
  std::vector<std::string> out = words_of(kClasses);
  for (const std::string& name : out) check_class(name);
  const std::string own = class_of(architecture());
  if (!computing.instructions.empty()) out.push_back(own + "-" + class_of(computing.instructions));
  out.push_back(own);
  out.push_back(kAnyClass);
  return out;
}

void check_class(std::string_view name) {
  if (!name.empty() && name.find_first_not_of(kInClass) == name.npos) return;
  throw Error(ErrorCode::kUsage, "\"" + std::string(name) +
                                     "\" is no class of machines: it consists of lower-case "
                                     "letters, digits, dots, - and _, as h100 or x86_64-avx2");
}

std::vector<std::string> environment_difference(const GoldenEntries& recorded,
                                                const GoldenEntries& now) {
  std::vector<std::string> out;
  for (const GoldenDifference& d : compare_golden(recorded, now)) {
    out.push_back(d.key + ": " + d.recorded.value_or("nothing") + " recorded, " +
                  d.now.value_or("nothing") + " now");
  }
  return out;
}

}  // namespace rlreplay::gate
