#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/replay/gate/forms.h"
#include "src/replay/verbs/golden_parts.h"

namespace rlreplay::replay {

/// A golden file and what is said of it.
struct Checked {
  std::string path;
  gate::Golden golden = {};
  gate::GoldenVerdict judgement = {};
  int code = 0;              // the exit code where it cannot be judged
  std::string pending = {};  // where its candidate lies
  FoundCause cause = {};
};

/// A value that differs, as an object of JSON.
[[nodiscard]] std::string difference_json(const gate::JudgedDifference& difference);

/// One JSON object, without a line's end.
[[nodiscard]] std::string checked_json(const Checked& checked, bool passes);

/// What is said of one file, for people, with at most `limit` differences.
[[nodiscard]] std::string checked_text(const Checked& checked, size_t limit);
[[nodiscard]] gate::Said said_of(const Checked& checked, bool passes);

/// The files that were asked for, in the forms of continuous integration. They can be made before
/// anything runs, or there is an error then.
class ReportFiles {
 public:
  /// Sees that each file can be made. Errors: kEnvironment; kUsage for a place in a dump, a golden
  /// file or a folder of them, and for two of one name.
  explicit ReportFiles(const GoldenArguments& arguments);
  ~ReportFiles();
  /// Writes each file, and GitHub's lines to standard output. Errors: kEnvironment.
  void write(const std::vector<gate::Said>& said);

 private:
  struct File;
  std::vector<File> files_;
  bool github_ = false;
};

}  // namespace rlreplay::replay
