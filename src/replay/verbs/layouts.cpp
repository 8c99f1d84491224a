#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <iostream>
#include <memory>

#include "src/base/error.h"
#include "src/base/json_line.h"
#include "src/base/number_text.h"
#include "src/base/words.h"
#include "src/events/name.h"
#include "src/replay/exchange/any_dump.h"
#include "src/replay/record/parse_step.h"
#include "src/replay/rerun/layout_matrix.h"
#include "src/replay/run/step_report.h"
#include "src/replay/verbs/verb.h"

namespace rlreplay::replay {
namespace {

struct LayoutsArguments {
  std::string dump, layouts = "all", step, ranks_as = "threads";
  int64_t ranks = 4;
  bool json = false;
};

/// The place of the step that --step names. Errors: kUsage.
int64_t named_step(const std::string& text, const RecordedRun& record) {
  const std::vector<StepId>& steps = record.steps();
  const auto named = parse_step(text);
  const auto count = parse_number<int64_t>(text);
  if (!named && (!count || *count < 0)) {
    throw Error(ErrorCode::kUsage,
                "--step names one step, as 3.0 or counted from 0, not \"" + text + "\"");
  }
  const int64_t place = named ? std::ranges::find(steps, *named) - steps.begin() : *count;
  if (place < std::ssize(steps)) return place;
  throw Error(ErrorCode::kUsage,
              "--step: the dump has no step " + text + "; it has " + counted(steps.size(), "step") +
                  ", " + steps.front().name() + " to " + steps.back().name(),
              record.path());
}

/// The step that is asked for, or the first that has its state. Errors: kUsage; those of
/// check_has_state.
int64_t chosen_step(const LayoutsArguments& arguments, const RecordedRun& record) {
  const std::vector<StepId>& steps = record.steps();
  if (steps.empty()) throw Error(ErrorCode::kIncomplete, "the dump holds no steps", record.path());
  if (arguments.step.empty()) {
    const auto found =
        std::ranges::find_if(steps, [&](const StepId& id) { return record.has_state(id); });
    if (found == steps.end()) check_has_state(record, steps.front());
    return found - steps.begin();
  }
  const int64_t place = named_step(arguments.step, record);
  check_has_state(record, steps[static_cast<size_t>(place)]);
  return place;
}

std::string difference_json(const LayoutDifference& d) {
  JsonLine out;
  const auto& row = d.numbers.row;
  const auto add = [&](const char* name, bool known, auto value) {
    known ? out.integer(name, static_cast<int64_t>(value())) : out.null(name);
  };
  out.text("event", engine::to_string(d.numbers.event));
  add("sample", row && d.per_token, [&] { return row->sample; });
  add("token", row && d.per_token, [&] { return row->row; });
  add("row", row && !d.per_token, [&] { return row->row; });
  add("column", d.numbers.column, [&] { return row->column; });
  std::vector<std::string> ranks, groups;
  for (const int rank : d.ranks) ranks.push_back(std::to_string(rank));
  for (const auto group : d.exchanged) {
    groups.push_back("\"" + std::string(engine::name(group)) + "\"");
  }
  out.json("ranks", "[" + joined(ranks, ",") + "]");
  out.json("exchanged_by", "[" + joined(groups, ",") + "]");
  if (!d.note.empty()) out.text("note", d.note);
  return out.str();
}

/// A line a layout, as they end.
class Lines {
 public:
  Lines(bool json, const StepId& step) : json_(json), step_(step) {}

  void add(const LayoutVerdict& v) {
    ++tried_;
    different_ += v.step.identical() ? 0 : 1;
    const std::string difference = v.first_difference();
    if (json_) {
      JsonLine line;
      line.text("schema", "rlreplay.layouts/1").text("step", step_.name());
      line.text("layout", to_string(v.layout)).integer("ranks", v.layout.ranks());
      line.boolean("identical", v.step.identical());
      difference.empty() ? line.null("first_difference")
                         : line.text("first_difference", difference);
      line.integer("events", v.step.events).number("seconds", v.step.outcome.train_seconds);
      const auto& replicas = v.step.outcome.result.replicas;
      if (replicas) line.json("replicas", replicas_json(*replicas));
      if (v.difference) line.json("difference", difference_json(*v.difference));
      std::cout << line.str() << std::endl;
      return;
    }
    std::cout << formatted("%-36s %5d %8.2f s  ", to_string(v.layout).c_str(), v.layout.ranks(),
                           v.step.outcome.train_seconds)
              << (difference.empty() ? "identical" : "differs: " + difference) << std::endl;
    const std::string whose = v.whose();
    if (!whose.empty()) std::cout << "    " << wrapped(whose, kLineWidth, 4) << std::endl;
  }

  void begin() const {
    if (json_) return;
    std::cout << "step " << step_.name() << '\n'
              << formatted("%-36s %5s %8s\n", "layout", "ranks", "time");
  }

  void finish() const {
    if (json_) return;
    std::cout << counted(tried_, "layout") << ": "
              << (different_ == 0 ? "all identical"
                                  : std::to_string(different_) + " NOT identical to the record")
              << '\n';
  }

 private:
  const bool json_;
  const StepId step_;
  int64_t tried_ = 0, different_ = 0;
};

int try_recorded(const LayoutsArguments& arguments, const RecordedRun& record) {
  if (imported_from(record.dump().meta(), record.path())) {
    throw Error(ErrorCode::kUnsupported,
                "layouts are tried on a dump that rlreplay captured: this one was imported",
                arguments.dump);
  }
  RunOptions options = record.config().options;
  options.ranks_as = arguments.ranks_as;
  const auto layouts =
      layouts_to_try(arguments.layouts, recorded_model(record)->config(), arguments.ranks);
  const int64_t step = chosen_step(arguments, record);
  Machine machine(options);
  Lines lines(arguments.json, record.steps()[static_cast<size_t>(step)]);
  lines.begin();
  const bool identical = try_layouts(record, options, step, layouts, machine,
                                     [&](const LayoutVerdict& verdict) { lines.add(verdict); });
  lines.finish();
  return identical ? 0 : 1;
}

}  // namespace

void add_layouts(CLI::App& program, VerbRun& chosen) {
  auto arguments = std::make_shared<LayoutsArguments>();
  CLI::App* verb = program.add_subcommand(
      "layouts", "Take one recorded step again in every parallel layout and compare");
  verb->add_option("dump", arguments->dump, "dump that rlreplay captured")->required();
  verb->add_option("--try", arguments->layouts,
                   "layouts, \"dp=2;tp=2,cp=2\"; all: every one that the model goes into, with and "
                   "without sp where tp is cut and zero where dp is");
  verb->add_option("--ranks", arguments->ranks, "with --try all: up to so many ranks (4)")
      ->check(CLI::Range(1, kMaxRanks));
  verb->add_option("--ranks-as", arguments->ranks_as, "what ranks are: threads or processes")
      ->check(CLI::IsMember({"threads", "processes"}));
  verb->add_option("--step", arguments->step,
                   "step, as 3.0 or counted from 0 (the first that has its state)");
  verb->add_flag("--json", arguments->json, "an object a layout instead of a table");
  verb->footer(
      "Ranks share the processors of this machine. What the record holds of the step is compared\n"
      "by bits: events, log-probabilities, losses, weights. Where a layout gives other bits, the\n"
      "ranks that computed the first of them are named.\n"
      "Exit code 1: a layout gives other bits.\n\n"
      "Examples:\n  rlreplay layouts dump/\n"
      "  rlreplay layouts dump/ --try \"dp=2;tp=2,pp=2,sp=1\" --step 1.0\n"
      "  rlreplay layouts dump/ --ranks 8 --json\n"
      "  rlreplay layouts dump/ --try \"tp=2,cp=2\" --ranks-as processes");
  verb->callback([=, &chosen] {
    chosen = [=] {
      return with_dump(arguments->dump,
                       [&](const AnyDump& dump) { return try_recorded(*arguments, dump.run()); });
    };
  });
}

}  // namespace rlreplay::replay
