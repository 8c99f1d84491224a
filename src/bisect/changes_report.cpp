#include "src/bisect/changes_report.h"

#include <algorithm>

#include "src/base/json_line.h"
#include "src/base/json_value.h"
#include "src/base/words.h"
#include "src/bisect/session.h"

namespace rlreplay::bisect {
namespace {

size_t count_of(const Changes& changes, Origin origin) {
  return static_cast<size_t>(std::ranges::count(changes.trials, origin, &Trial::origin));
}

std::string change_text(const Change& change) {
  const Revision& last = change.suspects.back();
  std::string text = last.short_id() + " " + last.subject + " (" + last.author + ", " + last.date +
                     ")\n             " + change.judgement.reason + "\n";
  if (change.suspects.size() == 1) return text;
  return text + "             or one of the " + std::to_string(change.suspects.size() - 1) +
         " before it, which could not be judged\n";
}

std::string change_json(const Change& change) {
  std::vector<std::string> interval;
  for (const Revision& revision : change.suspects) interval.push_back(revision.id);
  JsonLine line;
  change.suspects.size() == 1 ? line.text("revision", interval[0]) : line.null("revision");
  return line.json("interval", json_list(interval)).text("reason", change.judgement.reason).str();
}

}  // namespace

std::string changes_text(const Changes& changes) {
  const std::string count = counted(changes.found.size(), "change") + " in " +
                            counted(changes.revisions, "revision") + "\n";
  std::string text = "rlbisect: " + count + "\n";
  if (!changes.refused.empty()) {
    text = "rlbisect: cannot judge\n\nreason     " + changes.refused + "\n";
    if (!changes.cut) return text;
    text += "so far     " + count + "\n";
  }
  for (const Change& change : changes.found) text += change_text(change);
  if (!changes.found.empty()) text += "\n";
  if (!changes.noise.empty()) text += "noise      " + changes.noise + "\n";
  text += "runs       " + std::to_string(count_of(changes, Origin::kRun)) + ", " +
          std::to_string(count_of(changes, Origin::kStored)) + " stored\n";
  if (changes.cut) {
    const std::string missing =
        changes.not_run > 0 ? std::to_string(changes.not_run) : "none, but too few times";
    return text + "not run    " + missing + going_on(changes.fresh) + "\n";
  }
  if (changes.not_run == 0) return text;
  return text + "not run    " + std::to_string(changes.not_run) +
         ", which lie between revisions that agree: a change there and back again would not be "
         "seen\n";
}

std::string changes_json(const Changes& changes) {
  JsonLine line;
  line.text("schema", "rlreplay.changes/1");
  line.json("changes", json_list(changes.found, change_json));
  line.text("good", changes.good.id).text("bad", changes.bad.id);
  line.integer("revisions", static_cast<int64_t>(changes.revisions));
  line.integer("runs", static_cast<int64_t>(count_of(changes, Origin::kRun)));
  line.integer("stored", static_cast<int64_t>(count_of(changes, Origin::kStored)));
  line.integer("not_run", static_cast<int64_t>(changes.not_run));
  if (!changes.noise.empty()) line.text("noise", changes.noise);
  return (changes.refused.empty() ? line.null("reason") : line.text("reason", changes.refused))
      .str();
}

}  // namespace rlreplay::bisect
