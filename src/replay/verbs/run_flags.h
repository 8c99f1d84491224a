#pragma once

#include <CLI/App.hpp>
#include <array>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/replay/launch/launch_flags.h"
#include "src/replay/options/options.h"
#include "src/replay/options/replay_options.h"

namespace rlreplay::replay {

/// The sections that every verb with a run has.
inline constexpr std::array kRunSections = {
    Section::kModel,     Section::kPrompts,   Section::kRollout, Section::kSchedule,
    Section::kObjective, Section::kOptimizer, Section::kMachine};

/// The options of a run on a command line: every option of the table in the sections given,
/// --config and --print-config. Flags of launch scripts without effect here are taken and listed.
class RunFlags {
 public:
  /// `except`: options that the verb reads itself. `hidden`: sections that its help leaves out:
  /// they are taken, so that a launch script can be pasted.
  void add(CLI::App& verb, std::span<const Section> sections,
           const std::vector<std::string_view>& except = {}, std::span<const Section> hidden = {});
  /// Adds a flag as if it had been given, behind those that were.
  void set(const std::string& name, const std::string& text) { given_.emplace_back(name, text); }

  /// `base`, then --config, then the flags. Names on standard error what flags are ignored.
  /// Errors: kUsage, naming all flags of launch scripts that would have to be followed.
  RunOptions resolve(RunOptions base) const { return resolve(std::move(base), reach_); }
  /// resolve() on the defaults of the model that the flags name: the demo has its own.
  /// Errors: also those of check_on_policy.
  RunOptions resolve_for_model() const;

  /// resolve() on the options of a record; what is overridden is listed on standard error.
  RunOptions resolve_record(const RunOptions& recorded) const;

  /// Whether nothing was given: no option of a run, no --config, no flag of a launch script.
  [[nodiscard]] bool empty() const;

  /// Whether the command line or --config says something of an option.
  [[nodiscard]] bool gives(std::string_view name) const;

  /// What a record says is run or written only when the user says it too.
  /// Errors: kUsage, showing the recorded --reward-command and --save that were not given again.
  void check_given(const RunOptions& recorded, const std::string& where) const;

  /// resolve_record() for a replay: options that cannot change its bits are not listed.
  /// Errors: also kUsage for an option that has no effect on it.
  RunOptions resolve_replay(const RunOptions& recorded, ReplayKind kind) const;

  /// The flags as they would be typed again, each after a space.
  std::string command_line() const;

  [[nodiscard]] bool print_config() const { return print_config_; }

 private:
  RunOptions resolve(RunOptions base, Reach reach) const;
  void check_launch_flags(Reach reach) const;
  /// Errors of `check` name the line of --config that set what they are about.
  void check_places(const std::function<void()>& check) const;

  std::vector<Setting> given_;
  Reach reach_ = Reach::kTraining;  // where a record is the base
  std::string config_;
  bool print_config_ = false;
  CLI::App* verb_ = nullptr;
};

}  // namespace rlreplay::replay
