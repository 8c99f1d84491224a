#pragma once

#include <CLI/App.hpp>
#include <functional>
#include <string>
#include <vector>

/// The verbs of `rlreplay`, a file each. Each adds its subcommand to the program and, where it is
/// the one that was asked for, leaves in `chosen` what is to be run; that returns the exit code.
namespace rlreplay::replay {

/// What a verb does once its words are read.
using VerbRun = std::function<int()>;

void add_diff(CLI::App& program, VerbRun& chosen);
void add_export(CLI::App& program, VerbRun& chosen);
void add_golden(CLI::App& program, VerbRun& chosen);
void add_import(CLI::App& program, VerbRun& chosen);
/// `behind_dashes`: the command that --wrap runs.
void add_capture(CLI::App& program, VerbRun& chosen, const std::vector<std::string>& behind_dashes);
void add_layouts(CLI::App& program, VerbRun& chosen);
void add_why(CLI::App& program, VerbRun& chosen);
void add_mismatch(CLI::App& program, VerbRun& chosen);
void add_objective(CLI::App& program, VerbRun& chosen);
void add_rollout(CLI::App& program, VerbRun& chosen);
void add_score(CLI::App& program, VerbRun& chosen);
void add_seal(CLI::App& program, VerbRun& chosen);
void add_show(CLI::App& program, VerbRun& chosen);
void add_strip(CLI::App& program, VerbRun& chosen);
void add_tokenize(CLI::App& program, VerbRun& chosen);
void add_train(CLI::App& program, VerbRun& chosen);
void add_upgrade(CLI::App& program, VerbRun& chosen);
void add_verify(CLI::App& program, VerbRun& chosen);

/// All of them, in the order of --help.
void add_verbs(CLI::App& program, VerbRun& chosen, const std::vector<std::string>& behind_dashes);

}  // namespace rlreplay::replay
