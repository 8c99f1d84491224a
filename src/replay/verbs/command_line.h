#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <string>
#include <vector>

/// How both programs read their command lines, and in what words they answer.
namespace rlreplay::replay {

/// A help of at most 80 columns: CLI11's ends no line before its text does. The short one leaves
/// the options of a run out.
void set_up_help(CLI::App& program);

/// Reads the words into the program's options. A help (`--help-json`: the whole of it for programs)
/// or version that was asked for is printed: then the exit code. Flags of launch scripts are left
/// in `remaining()`, one word each with its values. Errors: kUsage, a sentence each.
[[nodiscard]] std::optional<int> read_words(CLI::App& program, std::vector<std::string> words);

}  // namespace rlreplay::replay
