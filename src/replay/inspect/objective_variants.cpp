#include "src/replay/inspect/objective_variants.h"

#include <algorithm>

#include "src/base/words.h"

namespace rlreplay::replay {

std::vector<ObjectiveVariant> recorded_variants(const ObjectiveSetting& from,
                                                const RunOptions& recorded) {
  const std::string reason(kAsRecorded);
  std::vector<ObjectiveVariant> out;
  std::vector<std::string> names;
  for (const Option& option : option_table()) {
    const std::string text = option_text(recorded, option);
    if (option.section != Section::kObjective || text == option_text(from.options, option))
      continue;
    const std::string flag = "--" + std::string(option.name);
    const bool off = text == "false" || text == "none";
    names.push_back(off ? "without " + flag : text == "true" ? flag : flag + " " + text);
    out.push_back(
        {.name = names.back(),
         .reason = reason,
         .apply = [&option, text](ObjectiveSetting& s) { set_option(s.options, option, text); },
         .says_nan = true});
  }
  if (out.size() > 2) {
    const std::vector<ObjectiveVariant> each = out;
    out.push_back({.name = joined_settings(names),
                   .reason = reason,
                   .apply =
                       [each](ObjectiveSetting& s) {
                         for (const ObjectiveVariant& variant : each) variant.apply(s);
                       },
                   .says_nan = true});
  }
  return out;
}

std::string joined_settings(std::vector<std::string> names) {
  std::stable_partition(names.begin(), names.end(),
                        [](const std::string& name) { return name.find("without ") == name.npos; });
  return joined(names, " and ");
}

}  // namespace rlreplay::replay
