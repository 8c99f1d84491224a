#pragma once

#include <CLI/App.hpp>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// The verbs of `rlreplay`, a file each. Each adds its subcommand to the program and, where it is
/// the one that was asked for, leaves in `chosen` what is to be run; that returns the exit code.
namespace rlreplay::replay {

/// What a verb does once its words are read.
using VerbRun = std::function<int()>;  // owns the verb's arguments, as CLI11's callback does

void add_diff(CLI::App& program, VerbRun& chosen);
void add_doctor(CLI::App& program, VerbRun& chosen);
void add_export(CLI::App& program, VerbRun& chosen);
void add_golden(CLI::App& program, VerbRun& chosen);
void add_import(CLI::App& program, VerbRun& chosen);

/// `behind_dashes`: the command that --wrap runs.
void add_capture(CLI::App& program, VerbRun& chosen, const std::vector<std::string>& behind_dashes);
void add_layouts(CLI::App& program, VerbRun& chosen);
void add_why(CLI::App& program, VerbRun& chosen);
void add_mismatch(CLI::App& program, VerbRun& chosen);
void add_objective(CLI::App& program, VerbRun& chosen);
void add_pack(CLI::App& program, VerbRun& chosen);
void add_rollout(CLI::App& program, VerbRun& chosen);
void add_score(CLI::App& program, VerbRun& chosen);
void add_seal(CLI::App& program, VerbRun& chosen);
void add_show(CLI::App& program, VerbRun& chosen);
void add_strip(CLI::App& program, VerbRun& chosen);
void add_tokenize(CLI::App& program, VerbRun& chosen);
void add_train(CLI::App& program, VerbRun& chosen);
void add_upgrade(CLI::App& program, VerbRun& chosen);
void add_verify(CLI::App& program, VerbRun& chosen);

/// The word with which `--layout` starts a rank as a process of its own; no verb for people.
inline constexpr std::string_view kRankWord = "rank";

/// Serves a rank where this process is one: started by that word, or by a launcher with a verb
/// whose rank 0 runs the verb. Returns the exit code, or nothing where it is none. Errors: kUsage
/// for the word where nothing says which rank.
[[nodiscard]] std::optional<int> serve_launched_rank(std::string_view word);

/// A launcher ends all ranks when one has failed, and may be sooner than rank 0 sees which: how
/// long rank 0 lives on after a signal to say it. Nothing of a process that no launcher started.
[[nodiscard]] std::chrono::milliseconds time_for_reason();

/// All of them, in the order of --help.
void add_verbs(CLI::App& program, VerbRun& chosen, const std::vector<std::string>& behind_dashes);

}  // namespace rlreplay::replay
