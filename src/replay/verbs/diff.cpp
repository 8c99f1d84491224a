#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <iostream>
#include <iterator>

#include "format/foreign/train_columns.h"
#include "src/base/number_text.h"
#include "src/base/shell.h"
#include "src/base/step_id.h"
#include "src/replay/compare/dumps_difference_report.h"
#include "src/replay/exchange/any_dump.h"
#include "src/replay/exchange/kept_difference.h"
#include "src/replay/exchange/other_difference.h"
#include "src/replay/exchange/slime_train_columns.h"
#include "src/replay/verbs/engine_half.h"
#include "src/replay/verbs/value_checks.h"
#include "src/replay/verbs/verb.h"

namespace rlreplay::replay {
namespace {

struct DiffArguments {
  std::string a, b, steps;
  std::vector<std::string> tolerances;
  bool trust_hashes = false;
  bool all = false;
  bool json = false;
};

DiffOptions diff_options(const DiffArguments& arguments) {
  DiffOptions options;
  options.trust_hashes = arguments.trust_hashes;
  for (const std::string& text : arguments.tolerances) {
    const size_t equals = text.find('=');
    const auto value = equals == text.npos
                           ? std::nullopt
                           : parse_number<double>(std::string_view(text).substr(equals + 1));
    if (!value || !is_distance(*value)) {
      throw Error(ErrorCode::kUsage,
                  "a tolerance is FIELD=NUMBER, as rewards=1e-6; of several fields each has a "
                  "--tolerance of its own",
                  text);
    }
    options.tolerance[text.substr(0, equals)] = *value;
  }
  return options;
}

std::string options_text(const DiffArguments& arguments) {
  std::string out = arguments.steps.empty() ? "" : " --steps " + shell_word(arguments.steps);
  for (const std::string& text : arguments.tolerances) out += " --tolerance " + shell_word(text);
  return out;
}

std::string verdict(const DiffArguments& arguments, const DumpsDifference& difference) {
  if (difference.within) return "not identical, but within" + options_text(arguments);
  if (!difference.identical()) return diff_verdict(difference);
  return arguments.trust_hashes ? "identical by recorded hashes; equal units were not read"
                                : identical_verdict(difference);
}

/// The error with the path of the dump that cannot be read; with both paths where both can.
Error named(const AnyDump& a, const AnyDump& b, const Error& error) {
  if (!a.reads(error)) return a.named(error);
  if (!b.reads(error)) return b.named(error);
  const Error in_a = a.named(error), in_b = b.named(error);
  return in_a.where() == in_b.where() ? in_a : error.at(in_a.where() + " or " + in_b.where());
}

/// The token that differs, where files of a rank hold the field's values of their tokens alone.
std::optional<uint64_t> cut_token(const std::string& field, const ValueDifference& found) {
  for (const SlimeColumn& name : kSlimeColumns) {
    const auto* const column = foreign::train_column(name.theirs);
    const bool is_cut = column != nullptr && column->is_cut();
    if (is_cut && field == "train/" + std::string(name.ours)) return found.token;
  }
  return std::nullopt;
}

/// Adds the rank of the first sample that differs to each field of training data, and of the first
/// of all a note that names the file, too: an import puts the ranks of a framework together, and
/// only its files say it.
void name_ranks(const AnyDump& a, const AnyDump& b, DumpsDifference& difference) {
  const auto of_step = [](const std::optional<ValueDifference>& found) {
    return found && found->step_id && found->sample;
  };
  const auto name = [&](const std::string& field, std::optional<ValueDifference>& found) {
    if (!of_step(found) || found->rank) return;
    const auto token = cut_token(field, *found);
    found->rank = a.rank_of(found->rollout_id, *found->sample, token);
    if (!found->rank) found->rank = b.rank_of(found->rollout_id, *found->sample, token);
  };
  auto& first = difference.data.first;
  const std::string& first_field = difference.data.first_field;
  name(first_field, first);
  for (FieldDifference& field : difference.data.fields) name(field.field, field.first);
  if (!of_step(first)) return;
  const std::string shard =
      a.shard_of(first->rollout_id, *first->sample, cut_token(first_field, *first));
  if (shard.empty()) return;
  difference.notes.push_back("sample " + std::to_string(*first->sample) + " of step " +
                             StepId{first->rollout_id, *first->step_id}.name() + " is of " + shard +
                             " in A");
}

DumpsDifference compare(const DiffArguments& arguments) {
  const AnyDump a(arguments.a, arguments.steps), b(arguments.b, arguments.steps);
  try {
    DumpsDifference found =
        compare_dumps(a.run(), b.run(), diff_options(arguments), element_finder(), kept_difference);
    name_ranks(a, b, found);
    if (!arguments.steps.empty()) {
      found.notes.push_back("of --steps " + arguments.steps + " alone: nothing else was opened");
      return found;
    }
    std::ranges::move(other_differences(arguments.a, arguments.b), std::back_inserter(found.notes));
    return found;
  } catch (const Error& error) {
    throw named(a, b, error);
  }
}

int diff(const DiffArguments& arguments) {
  const DumpsDifference difference = compare(arguments);
  const std::string command = "rlreplay diff " + shell_word(arguments.a) + " " +
                              shell_word(arguments.b) + options_text(arguments);
  std::cout << (arguments.json ? diff_json(difference, command) + "\n"
                               : diff_text(difference, verdict(arguments, difference), command,
                                           arguments.all));
  return difference.identical() || difference.within ? 0 : 1;
}

}  // namespace

void add_diff(CLI::App& program, VerbRun& chosen) {
  auto arguments = std::make_shared<DiffArguments>();
  CLI::App* verb = program.add_subcommand("diff", "The first difference of two dumps");
  verb->add_option("a", arguments->a, "a dump, or files of slime, Miles or Relax")->required();
  verb->add_option("b", arguments->b, "another")->required();
  verb->add_option("--steps", arguments->steps,
                   "steps to compare: A..B, each as 3.0 or counted from 0, B included");
  verb->add_option("--tolerance", arguments->tolerances,
                   "FIELD=NUMBER: differences up to it count as none (repeatable)");
  verb->add_flag("--trust-hashes", arguments->trust_hashes,
                 "do not read units whose recorded hashes are equal");
  verb->add_flag("--all", arguments->all, "print all causes, fields, histograms and events");
  verb->add_flag("--json", arguments->json, "print one JSON object");
  verb->footer(
      "Dumps are identical where their content roots are equal (format/SPEC.md section 7):\n"
      "options that can change bits, samples, columns, scalars, events, states, and in what\n"
      "the files of an import contradict each other. Samples are compared by id, whatever the "
      "numbers of ranks and however the dumps are stored; equal\n"
      "is equal to the bit, and a NaN equals a NaN. Every stored byte is held to its hash;\n"
      "units of equal content are not decoded. Times and other volatile things of foreign\n"
      "dumps are left out; a note names files that differ in them, or that no import reads. With a "
      "tolerance, columns and "
      "scalars decide, and the verdict says\n"
      "so.\n\n"
      "What differs comes in the order of causes: options, versions and environment; state,\n"
      "prompts, tokens, rewards; events. Where captures were recorded too coarsely to show\n"
      "the element, the step is computed again on both sides.\n"
      "Exit code 1 where the dumps differ.\n\n"
      "Examples:\n  rlreplay diff runA/ runB/\n  rlreplay diff runA/ runB/ --tolerance "
      "advantages=1e-6\n  rlreplay diff runA/ runB/ --steps 3.0..5.0");
  verb->callback([=, &chosen] { chosen = [=] { return diff(*arguments); }; });
}

}  // namespace rlreplay::replay
