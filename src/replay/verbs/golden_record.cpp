#include <algorithm>
#include <filesystem>
#include <iostream>

#include "format/dump_place.h"
#include "src/base/atomic_file.h"
#include "src/base/error.h"
#include "src/base/shell.h"
#include "src/base/terminal.h"
#include "src/base/words.h"
#include "src/replay/gate/environment.h"
#include "src/replay/gate/golden_lock.h"
#include "src/replay/gate/pending.h"
#include "src/replay/gate/place.h"
#include "src/replay/options/config_file.h"
#include "src/replay/rerun/golden_run.h"
#include "src/replay/run/launched_rank.h"
#include "src/replay/run/machine.h"
#include "src/replay/verbs/golden_parts.h"

namespace rlreplay::replay {
namespace {

constexpr const char* kMadeBy =
    "rlreplay golden record\n"
    "The lines \"about\" and \"option\" say of which run; rlreplay golden check FILE runs it "
    "again.";
constexpr size_t kShownRecord = 5;

bool exists(const std::string& path) {
  std::error_code absent;
  return std::filesystem::exists(path, absent);
}

/// The flags on what a file that is to be replaced says, or on the model's own defaults.
RunOptions record_options(const GoldenArguments& arguments, const std::string& path) {
  if (!exists(path) || !arguments.flags.resolve({}).model.empty()) {
    return arguments.flags.resolve_for_model();
  }
  const RunOptions recorded = options_of(gate::read(path).options);
  arguments.flags.check_given(recorded, path);
  return arguments.flags.resolve(recorded);
}

/// Values by the contract hold everywhere, all others in the narrowest class of this machine.
std::string class_of(const GoldenArguments& arguments, const std::optional<RunOptions>& options) {
  if (!arguments.class_name.empty()) {
    gate::check_class(arguments.class_name);
    return arguments.class_name;
  }
  const std::string named = gate::key_of(arguments.file()).class_name;
  const bool contract = options && options->kernels != "torch";
  if (named != gate::kAnyClass || contract) return named;
  return gate::classes_now(options ? computing(*options) : Computing{}).front();
}

void check_replaced(const GoldenArguments& arguments, const std::string& path) {
  if (!exists(path)) return;
  if (!arguments.force) {
    throw Error(ErrorCode::kUsage,
                "the file is there already: check it, or replace it with --force", path);
  }
  check_reason(arguments.reason, path);
}

/// `PATTERN=BOUND UNIT: WHY`
gate::Tolerance given_tolerance(const std::string& text) {
  const size_t equal = text.find('=');
  if (equal == text.npos || text.find_first_not_of(' ') == equal) {
    throw Error(ErrorCode::kUsage,
                "--tolerance begins with a pattern, as in \"step * loss=4 ulps: WHY\"", text);
  }
  return gate::parse_tolerance(text.substr(0, equal), text.substr(equal + 1), "--tolerance");
}

/// The tolerances of the file that is replaced, and those given: one can only shrink.
/// Errors: kUsage for one that grows or has another unit.
std::vector<gate::Tolerance> tolerances_of(const GoldenArguments& arguments,
                                           const std::string& path) {
  std::vector<gate::Tolerance> out;
  if (exists(path)) out = gate::read(path).tolerances;
  for (const std::string& text : arguments.tolerances) {
    gate::Tolerance given = given_tolerance(text);
    const auto old = std::ranges::find(out, given.keys, &gate::Tolerance::keys);
    if (old == out.end()) {
      out.push_back(std::move(given));
      continue;
    }
    if (old->unit != given.unit || old->bound < given.bound) {
      throw Error(ErrorCode::kUsage,
                  "the tolerance of \"" + given.keys + "\" is \"" + to_string(*old) +
                      "\", and can only shrink: who wants it wider takes its line out of the file",
                  path);
    }
    *old = std::move(given);
  }
  std::ranges::sort(out, {}, &gate::Tolerance::keys);
  return out;
}

/// Sees that two runs agree within the tolerances. Errors: kEnvironment where they do not.
void check_stable(const gate::Golden& golden, const gate::Observation& now) {
  const auto between = gate::differences(golden.tolerances, now.values, *now.again);
  if (std::ranges::all_of(between, &gate::JudgedDifference::within)) return;
  std::cerr << differences_text(between, kShownRecord);
  throw Error(ErrorCode::kEnvironment,
              "two runs do not give the same bits (" + std::to_string(between.size()) + " of " +
                  std::to_string(now.values.size()) +
                  " values): nothing was recorded. Make the run deterministic, or say how far they "
                  "may lie apart, and why: --tolerance \"PATTERN=4 ulps: WHY\"");
}

gate::Golden golden_now(const GoldenArguments& arguments, const std::string& path,
                        const std::string& class_name, const std::optional<RunOptions>& options) {
  gate::Golden out{.made_by = kMadeBy};
  out.about = about_now(arguments.run, arguments.build, path, class_name, arguments.allow_changed);
  if (!arguments.reason.empty()) out.about["reason"] = arguments.reason;
  if (options) out.options = golden_options(*options);
  out.tolerances = tolerances_of(arguments, path);
  gate::Observation now = observe(out, options, arguments, path, true);
  if (!now.problem.empty()) throw Error(ErrorCode::kIncomplete, now.problem, path);
  if (const std::string why = gate::emptiness_of(now.values); !why.empty()) {
    throw Error(ErrorCode::kUsage, "such a run is no golden one: " + why, path);
  }
  check_stable(out, now);
  if (!arguments.dump.empty()) {
    check_dump(arguments.dump, now.values);
    out.about["dump"] = arguments.dump;
  }
  out.environment = std::move(now.environment);
  out.inputs = std::move(now.inputs);
  out.values = std::move(now.values);
  return out;
}

/// Errors: kEnvironment.
void make_folder_of(const std::string& path) {
  const auto folder = std::filesystem::absolute(path).parent_path();
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (!failed) return;
  throw Error(ErrorCode::kEnvironment, "cannot make the folder: " + failed.message(),
              folder.string());
}

/// Says which tolerances hold nothing: mistyped, they would leave the values exact.
void tell_of_idle_tolerances(const std::string& path, const gate::Golden& golden) {
  for (const gate::Tolerance& tolerance : golden.tolerances) {
    const auto fits = [&](const auto& value) { return gate::covers(tolerance, value.first); };
    if (std::ranges::any_of(golden.values, fits)) continue;
    std::cerr << "rlreplay: " << terminal_text(path) << ": the tolerance of "
              << terminal_text(tolerance.keys) << " fits none of the "
              << counted(golden.values.size(), "value")
              << ": correct its pattern, or take its line out\n";
  }
}

}  // namespace

int golden_record(const GoldenArguments& arguments) {
  const gate::Key named = gate::key_of(arguments.file());
  const std::string before = gate::path_of(named);
  std::optional<RunOptions> options;
  if (arguments.run.empty()) {
    if (!arguments.build.empty()) {
      throw Error(ErrorCode::kUsage, "--build is of the commit of a command: give --run, too");
    }
    if (!arguments.dump.empty()) {
      throw Error(ErrorCode::kUsage, "--dump is what a command leaves: give --run, too");
    }
    options = record_options(arguments, before);
    check_golden_options(*options);
  } else {
    check_asked({.about = {{"run", arguments.run}}}, arguments, before);
  }
  if (options && arguments.flags.print_config()) {
    std::cout << options_yaml(*options);
    return 0;
  }
  check_may_write();
  check_first_process(own_environment());
  const std::string class_name = class_of(arguments, options);
  const std::string path = output_file(gate::path_of({named.test, class_name}));
  check_replaced(arguments, path);  // refused before the run, not after
  if (!arguments.dump.empty()) static_cast<void>(root_of_dump(arguments.dump));
  format::check_outside_dumps(path);
  make_folder_of(path);
  const std::string state = gate::state_of(path);
  const gate::Golden golden = golden_now(arguments, path, class_name, options);
  const gate::GoldenLock lock({path});
  gate::check_unchanged(path, state);
  gate::write(path, golden);
  gate::drop_candidate(path);
  tell_of_idle_tolerances(path, golden);
  std::cout << golden.values.size() << " values recorded in " << path
            << "\ncheck them: rlreplay golden check " << shell_word(path)
            << (arguments.run.empty() ? "" : " --run-recorded") << '\n';
  return 0;
}

}  // namespace rlreplay::replay
