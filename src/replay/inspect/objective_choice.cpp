#include "src/replay/inspect/objective_choice.h"

#include <algorithm>
#include <utility>

namespace rlreplay::replay {
namespace {

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

bool holds(const Explanation& explanation, const std::vector<Quantity>& from,
           const std::vector<Quantity>& now) {
  return std::ranges::all_of(from, [&](const Quantity& q) {
    const auto other = std::ranges::find(now, q.name, &Quantity::name);
    if (other == now.end() || !has(explanation.judged, q.name)) return true;
    const bool wanted =
        q.is_reproduced() || (q.is_finding() && has(explanation.quantities, q.name));
    return !wanted || other->is_reproduced();
  });
}

void add_rival(const Explanation& of_losses, const std::vector<Quantity>& from,
               const std::vector<Quantity>& now, std::vector<Explanation>& explained) {
  for (Explanation& e : explained) {
    if (e.settings == of_losses.settings || !holds(e, from, now)) continue;
    Explanation rival = e;
    rival.rivals.clear();
    rival.settings = of_losses.settings;
    rival.reasons = of_losses.reasons;
    rival.parts = of_losses.parts;
    rival.apply = of_losses.apply;
    e.rivals.push_back(std::move(rival));
  }
}

void count_evidence(const std::vector<Quantity>& from, const std::vector<Quantity>& now,
                    Explanation& explanation) {
  bool against = false, mends = false;
  for (const Quantity& q : from) {
    const auto other = std::ranges::find(now, q.name, &Quantity::name);
    if (other == now.end()) continue;
    const bool breaks = q.is_reproduced() && !other->is_reproduced();
    const bool mended = q.is_finding() && other->is_reproduced();
    explanation.mends += mended - breaks;
    if (!has(explanation.quantities, q.name)) continue;
    against |= breaks;
    mends |= mended;
  }
  explanation.steps_against += against;
  explanation.steps_for += !against && mends;
}

void for_each_explanation(std::vector<ObjectiveStep>& steps,
                          const std::function<void(Explanation&)>& take) {
  for (ObjectiveStep& step : steps) {
    for (Explanation& explanation : step.explanations) {
      take(explanation);
      std::ranges::for_each(explanation.rivals, take);
    }
  }
}

namespace {

size_t failures(const Explanation& e) { return e.fails_in.size(); }

/// Whether what was found for another step explains as much of this one, and fails in fewer steps,
/// or in as many and mends more.
bool is_better(const Explanation& other, const Explanation& chosen, const std::string& step) {
  return other.of_losses == chosen.of_losses && other.judged == chosen.judged &&
         std::pair(failures(other), -other.mends) < std::pair(failures(chosen), -chosen.mends) &&
         !has(other.fails_in, step) &&
         std::ranges::all_of(chosen.quantities,
                             [&](const std::string& name) { return has(other.quantities, name); });
}

void take_setting(const Explanation& from, Explanation& to) {
  std::erase_if(to.left, [&](const std::string& name) {
    const bool explained = has(from.quantities, name);
    if (explained) to.quantities.push_back(name);
    return explained;
  });
  to.settings = from.settings;
  to.reasons = from.reasons;
  to.parts = from.parts;
  to.fails_in = from.fails_in;
  to.apply = from.apply;
  to.steps_for = from.steps_for;
  to.steps_against = from.steps_against;
  to.mends = from.mends;
}

/// One that leaves a number of its own step, or fails in more steps than it explains, where the
/// given options reproduce the same: it fits by chance.
bool is_chance(const Explanation& e) {
  return e.steps_against > 0 && (!e.left.empty() || e.steps_against > e.steps_for);
}

void append_new(const std::vector<std::string>& from, std::vector<std::string>& to) {
  for (const std::string& name : from) {
    if (!has(to, name)) to.push_back(name);
  }
}

/// One explanation of all that its settings reproduce; rivals are those of both.
void join(const Explanation& from, Explanation& to) {
  to.quantities.insert(to.quantities.end(), from.quantities.begin(), from.quantities.end());
  to.left.insert(to.left.end(), from.left.begin(), from.left.end());
  append_new(from.reasons, to.reasons);
  append_new(from.fails_in, to.fails_in);
  std::erase_if(to.rivals, [&](const Explanation& rival) {
    return std::ranges::find(from.rivals, rival.settings, &Explanation::settings) ==
           from.rivals.end();
  });
}

void join_equal(std::vector<Explanation>& explanations) {
  std::vector<Explanation> out;
  for (Explanation& e : explanations) {
    const auto same = std::ranges::find(out, e.settings, &Explanation::settings);
    if (same == out.end()) {
      out.push_back(std::move(e));
    } else {
      join(e, *same);
    }
  }
  explanations = std::move(out);
}

}  // namespace

void choose_explanations(std::vector<ObjectiveStep>& steps) {
  std::vector<Explanation> all;
  for_each_explanation(steps, [&](const Explanation& found) { all.push_back(found); });
  for (ObjectiveStep& step : steps) {
    for (Explanation& chosen : step.explanations) {
      for (const Explanation& other : all) {
        if (is_better(other, chosen, step.id.name())) take_setting(other, chosen);
      }
    }
    std::erase_if(step.explanations, is_chance);
    join_equal(step.explanations);
  }
}

}  // namespace rlreplay::replay
