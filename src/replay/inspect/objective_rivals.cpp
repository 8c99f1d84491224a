#include "src/replay/inspect/objective_rivals.h"

#include <algorithm>
#include <set>

#include "src/base/words.h"
#include "src/replay/inspect/objective_variants.h"

namespace rlreplay::replay {
namespace {

bool is_flag(const std::string& setting) {
  return setting.starts_with("--") || setting.starts_with("without --");
}

/// The settings of an explanation, and those of which they say more.
std::set<std::string> with_parts(const Explanation& e) {
  std::set<std::string> out(e.settings.begin(), e.settings.end());
  out.insert(e.parts.begin(), e.parts.end());
  return out;
}

/// Whether one takes all that the other takes, with something more: "--normalize-advantages over
/// each step".
bool refines(const Explanation& a, const Explanation& b) {
  const auto has_all = [](const Explanation& one, const Explanation& other) {
    const std::set<std::string> taken = with_parts(one);
    return std::ranges::all_of(other.settings,
                               [&](const std::string& name) { return taken.contains(name); });
  };
  return has_all(a, b) || has_all(b, a);
}

bool names_estimator(const std::string& setting) {
  return setting.starts_with(kEstimatorSetting) &&
         setting.find(' ', kEstimatorSetting.size()) == setting.npos;
}

/// Settings without the estimator's name, where they name one.
std::vector<std::string> but_estimator(std::vector<std::string> settings) {
  for (std::string& setting : settings) {
    if (names_estimator(setting)) setting.resize(kEstimatorSetting.size());
  }
  return settings;
}

/// Settings that differ by the estimator alone, as one text.
std::string alike_text(const std::vector<const Explanation*>& alike) {
  std::vector<std::string> out = alike.front()->settings;
  const auto own = std::ranges::find_if(out, names_estimator);
  for (size_t i = 1; i < alike.size(); ++i) {
    const std::string& other = *std::ranges::find_if(alike[i]->settings, names_estimator);
    *own += (i + 1 == alike.size() ? " or " : ", ") + other.substr(kEstimatorSetting.size());
  }
  return joined_settings(out);
}

}  // namespace

std::vector<const Explanation*> named_rivals(const Explanation& e) {
  const auto said = std::ranges::find(e.reasons, kAsRecorded);
  if (said != e.reasons.end()) return {};
  std::vector<const Explanation*> out;
  for (const Explanation& rival : e.rivals) {
    const bool known = std::ranges::any_of(
        out, [&](const Explanation* other) { return other->settings == rival.settings; });
    if (known || !std::ranges::all_of(rival.settings, is_flag)) continue;
    if (refines(rival, e) || rival.fails_in.size() > e.fails_in.size()) continue;
    if (rival.mends < e.mends) continue;
    out.push_back(&rival);
  }
  return out;
}

std::vector<std::string> settings_texts(const Explanation& e) {
  constexpr size_t kMost = 4;
  std::vector<const Explanation*> all = named_rivals(e);
  all.insert(all.begin(), &e);
  std::vector<std::vector<const Explanation*>> groups;
  for (const Explanation* one : all) {
    const auto group = std::ranges::find_if(groups, [&](const auto& known) {
      return but_estimator(known.front()->settings) == but_estimator(one->settings);
    });
    if (group == groups.end()) {
      groups.push_back({one});
    } else {
      group->push_back(one);
    }
  }
  groups.resize(std::min(groups.size(), kMost));
  std::vector<std::string> out;
  for (const auto& alike : groups) out.push_back(alike_text(alike));
  return out;
}

}  // namespace rlreplay::replay
