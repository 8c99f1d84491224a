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

/// The test and the class that a file's path names; path_of() gives the path again.
/// Errors: kUsage for a path that does not end in `.txt`, with a name that is no class, or with
/// `@any`, which a file of that class goes without.
[[nodiscard]] Key key_of(const std::string& path);
[[nodiscard]] std::string path_of(const Key& key);

/// Whether a file begins as a golden one.
[[nodiscard]] bool is_golden_file(const std::string& path);

/// The golden files that paths name: themselves, or what a folder and those in it hold, by path.
/// Other text files in a folder are left out, and named in `others`.
/// Errors: kIncomplete for a path where nothing is, and for a folder without a golden file.
[[nodiscard]] std::vector<std::string> golden_files(const std::vector<std::string>& paths,
                                                    std::vector<std::string>* others = nullptr);

/// Of the `others` of golden_files() those that were golden files: their name has a class, or
/// something of one is left in them, or they are no files at all (a pipe, a link to nothing).
[[nodiscard]] std::vector<std::string> damaged_golden_files(const std::vector<std::string>& others);

/// The file that counts for a test here.
struct Choice {
  std::string test;
  std::string path = {};                  // empty: there is none for these classes
  std::vector<std::string> instead = {};  // the other classes' files
};

/// Chooses of each test's files the one of the first of these classes that has one; a file whose
/// name is no key is a test of its own.
[[nodiscard]] std::vector<Choice> choose(const std::vector<std::string>& files,
                                         const std::vector<std::string>& classes);

}  // namespace rlreplay::gate
