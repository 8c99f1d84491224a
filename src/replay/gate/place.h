#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/replay/gate/golden.h"

namespace rlreplay::gate {

/// What a golden file is one of: the values of a test in a class of environments. `demo.txt` is of
/// class `any`, `demo@x86_64.txt` of class `x86_64`.
struct Key {
  std::string test;  // a path without the class and `.txt`
  std::string class_name;

  friend auto operator<=>(const Key&, const Key&) = default;
};

/// Errors: kUsage for a path that does not end in `.txt`, or with a name that is no class.
[[nodiscard]] Key key_of(const std::string& path);
[[nodiscard]] std::string path_of(const Key& key);

/// Whether a file begins as a golden one.
[[nodiscard]] bool is_golden_file(const std::string& path);

/// The golden files that paths name: themselves, or what a folder and those in it hold, by path.
/// Other text files in a folder are left out, and named in `others`.
/// Errors: kIncomplete for a path where nothing is, and for a folder without a golden file.
[[nodiscard]] std::vector<std::string> golden_files(const std::vector<std::string>& paths,
                                                    std::vector<std::string>* others = nullptr);

/// The file that counts for a test here.
struct Choice {
  std::string test;
  std::string path = {};                  // empty: there is none for these classes
  std::vector<std::string> instead = {};  // the other classes' files
};

/// Of each test's files the one of the first of these classes that has one.
[[nodiscard]] std::vector<Choice> choose(const std::vector<std::string>& files,
                                         const std::vector<std::string>& classes);

/// Where the candidate of a golden file lies until somebody accepts it: in the folder of git beside
/// the checkout that holds the file, or among the user's own files where there is none. Never in
/// the tree.
/// Errors: kEnvironment where the user has no home for them.
[[nodiscard]] std::string pending_path(const std::string& path);

/// Writes a candidate there. Errors: those of write; kEnvironment.
void write_pending(const std::string& pending, const Golden& candidate);

/// Whether this is a machine that only looks: CI is set, and neither empty, `0` nor `false`.
[[nodiscard]] bool in_ci();

}  // namespace rlreplay::gate
