#include "src/bisect/verbs/live_screen.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>

#include <sys/ioctl.h>
#include <unistd.h>

#include "src/base/terminal.h"
#include "src/base/words.h"

namespace rlreplay::bisect {
namespace {

Colour colour_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kGood:
      return Colour::kGreen;
    case Verdict::kBad:
      return Colour::kRed;
    case Verdict::kSkip:
      return Colour::kYellow;
  }
  return Colour::kYellow;
}

std::string verdict_line(const Trial& trial) {
  const std::string how = trial.origin == Origin::kEqualContent ? ", as another of the same content"
                          : trial.origin == Origin::kStored     ? ", as on " + trial.date
                                                                : "";
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, " [%.1f s]", trial.seconds);
  return trial.revision.short_id() + " " +
         coloured(to_string(trial.judgement.verdict), colour_of(trial.judgement.verdict), stderr) +
         how + ": " + terminal_text(trial.judgement.reason) + seconds + "\n";
}

bool shows_a_screen() {
  const char* terminal = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) == 1 && terminal != nullptr && std::string(terminal) != "dumb";
}

size_t columns() {
  winsize size{};
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20;
  return known ? size.ws_col : kLineWidth;
}

/// `drawn_` lines stand above the cursor, which the next drawing erases: nobody else may write to
/// standard error in between.
class LiveScreen {
 public:
  void start(const std::vector<Revision>& history) { history_ = history; }

  void begin(const Revision& revision, size_t left) {
    running_.push_back(revision);
    left_ = left;
    draw("");
  }

  void end(const Trial& trial) {
    std::erase_if(running_, [&](const Revision& r) { return r.id == trial.revision.id; });
    verdicts_[trial.revision.id] = trial.judgement.verdict;
    draw(verdict_line(trial));
  }

  ~LiveScreen() { erase(); }

 private:
  /// `line` stays above the screen.
  void draw(const std::string& line) {
    erase();
    std::string text = line;
    const size_t width = columns() - 1;
    const std::string cells = strip(width);
    if (!cells.empty()) text += cells + "\n", ++drawn_;
    for (const Revision& revision : running_) {
      // Bytes: a line that is too short does no harm.
      std::string row = "runs  " + revision.short_id() + " " + revision.subject;
      if (row.size() > width) row.resize(width);
      text += terminal_text(row) + "\n";
      ++drawn_;
    }
    if (!running_.empty()) text += counted(left_, "run") + " to go\n", ++drawn_;
    std::fputs(text.c_str(), stderr);
    std::fflush(stderr);
  }

  void erase() {
    if (drawn_ > 0) std::fprintf(stderr, "\033[%zuA\033[J", drawn_);
    drawn_ = 0;
  }

  /// A cell a revision, or a row of them; the oldest at the left.
  std::string strip(size_t width) const {
    const size_t cells = std::min(width, history_.size());
    std::string out;
    for (size_t i = 0; i < cells; ++i) {
      out += cell(i * history_.size() / cells, (i + 1) * history_.size() / cells);
    }
    return out;
  }

  /// What runs is seen first, then what is bad, then what is good.
  std::string cell(size_t begin, size_t end) const {
    std::optional<Verdict> seen;
    for (size_t i = begin; i < end; ++i) {
      const auto runs = [&](const Revision& r) { return r.id == history_[i].id; };
      if (std::ranges::any_of(running_, runs)) return ">";
      const auto at = verdicts_.find(history_[i].id);
      if (at != verdicts_.end() && seen != Verdict::kBad) seen = at->second;
    }
    if (!seen) return ".";
    const char* sign = *seen == Verdict::kGood ? "+" : *seen == Verdict::kBad ? "x" : "?";
    return coloured(sign, colour_of(*seen), stderr);
  }

  std::vector<Revision> history_, running_;
  std::map<std::string, Verdict> verdicts_;
  size_t left_ = 0, drawn_ = 0;
};

Listener lines() {
  return {.begin =
              [](const Revision& revision, size_t left) {
                std::fprintf(stderr, "%s %s (%zu to go)\n", revision.short_id().c_str(),
                             terminal_text(revision.subject).c_str(), left);
              },
          .end = [](const Trial& trial) { std::fputs(verdict_line(trial).c_str(), stderr); }};
}

}  // namespace

Listener live_screen() {
  if (!shows_a_screen()) return lines();
  const auto screen = std::make_shared<LiveScreen>();
  return {.begin = [=](const Revision& r, size_t left) { screen->begin(r, left); },
          .end = [=](const Trial& trial) { screen->end(trial); },
          .start = [=](const std::vector<Revision>& history) { screen->start(history); }};
}

}  // namespace rlreplay::bisect
