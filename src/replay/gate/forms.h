#pragma once

#include <span>
#include <string>
#include <vector>

namespace rlreplay::gate {

/// What is said of one golden file, for the forms of continuous integration.
struct Said {
  enum class Level { kFine, kWarning, kError };

  std::string path;
  std::string outcome;
  std::string text;  // what a terminal would show
  Level level = Level::kFine;
  bool judged = true;
  size_t differences = 0;
};

/// A test case a file: failed, or in error where it could not be judged.
[[nodiscard]] std::string junit_of(std::span<const Said> said);

/// SARIF 2.1.0: a result a file that is not fine.
[[nodiscard]] std::string sarif_of(std::span<const Said> said);

/// GitLab's Code Quality: an issue a file that is not fine.
[[nodiscard]] std::string gitlab_of(std::span<const Said> said);

/// GitHub shows no more annotations of a step.
inline constexpr size_t kMostAnnotations = 10;

/// A text in which no line is a workflow command of GitHub, whatever a key or a path has.
[[nodiscard]] std::string without_commands(std::string text);

/// GitHub's workflow commands: the worst files, errors before warnings, most differences first.
[[nodiscard]] std::string github_of(std::span<const Said> said);

/// All of them as a table of Markdown, for the summary of a job.
[[nodiscard]] std::string summary_of(std::span<const Said> said);

}  // namespace rlreplay::gate
