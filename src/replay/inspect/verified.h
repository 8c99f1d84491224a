#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/foreign/tree_check.h"
#include "format/verify.h"
#include "src/base/error.h"
#include "src/base/hash.h"

/// What `rlreplay verify` finds: every check in its order, and the verdict on a dump of ours
/// (verify_dump.cpp) and on files of others (verify_files.cpp).
namespace rlreplay::replay {

/// A problem, with the file, the dataset or the place in it, and a byte of the file.
struct VerifyProblem {
  std::string code, path, dataset, message;
  std::optional<uint64_t> offset = {};
};

/// What is known of a dump of ours.
struct VerifiedDump {
  format::VerifyReport report;
  std::vector<VerifyProblem> problems;
  std::vector<std::string> not_checked;  // a sentence each
  std::vector<std::string> unended;      // writers whose journals have no end
  std::string unended_text;              // those for people, where there are several writers
  std::optional<Hash> content;
  bool damaged = false;                      // stored bytes are not those that were written
  bool complete = false;                     // nothing is missing
  std::optional<ErrorCode> unreadable = {};  // of a value that ended the reading

  /// Whether it was sealed, and parts of the run or of a step are missing in it.
  [[nodiscard]] bool lacks_parts() const;
  std::string_view verdict() const;
};

/// How far a check goes: records alone, all stored bytes, or every value and what it means.
enum class VerifyDepth { kQuick, kBytes, kDeep };

/// Checks a native dump as far as `depth` says. Errors: as format::verify.
[[nodiscard]] VerifiedDump verify_dump(const std::string& path, VerifyDepth depth);

/// The first rule that a unit of a dump breaks, or its records. Errors: as format::verify.
[[nodiscard]] std::optional<format::Problem> find_unit_damage(const std::string& path, int threads);

/// The first rule of the format that a dump breaks, in a unit or among several of a rollout or a
/// step: what makes the verdict of verify_dump DAMAGED, values being read. It holds a rollout with
/// its steps at once, and of states what their differences need. Errors: as format::verify.
[[nodiscard]] std::optional<format::Problem> find_damage(const std::string& path, int threads);

/// What is known of files that are no dump of ours.
struct VerifiedFiles {
  std::vector<VerifyProblem> problems;
  std::vector<std::string> not_checked;  // a sentence each
  size_t files = 0;
  size_t others = 0;         // of these, no dumps, beside dumps
  bool corrupt = false;      // a file cannot be read that is not outside of what is supported
  bool lacks_parts = false;  // an import of them has gaps

  /// A version or form that is not read, or a limit, says nothing of what the file holds.
  [[nodiscard]] bool unsupported() const;
  /// Whether all could be read and nothing is missing.
  [[nodiscard]] bool whole() const;
};

/// Files of torch.save, one or those of a folder, or a file of JSON lines.
[[nodiscard]] VerifiedFiles verify_files(const std::string& path, bool deep);

// What both are made of.

/// Whether a part is missing, which is no contradiction of what is there.
[[nodiscard]] bool names_missing(const VerifyProblem& problem);

/// Whether what was thrown says something of the input, and not of the machine or the program.
[[nodiscard]] bool is_about_input(const Error& error);

/// Whether it is a version or form that is not read, or a limit: no word on what is stored.
[[nodiscard]] bool is_outside_support(const Error& error);

/// Whether a file of others is refused by it: all but errors of the machine or the program.
[[nodiscard]] bool is_refused_file(const Error& error);

/// What no reader gets past. A usage error here is of files that are no one run.
[[nodiscard]] VerifyProblem unreadable_problem(const Error& error, const std::string& path);

/// Adds the problems of the file or folder `path`, or of files below it, named by their whole
/// paths, to `to`.
void add_problems(const std::vector<foreign::Problem>& from, const std::string& path,
                  std::vector<VerifyProblem>& to);

}  // namespace rlreplay::replay
