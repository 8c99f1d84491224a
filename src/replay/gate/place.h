#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/base/error.h"
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

/// What paths name: each itself, or what a folder and those in it hold. All of it by path.
struct FoundFiles {
  std::vector<std::string> files = {};    // given themselves, or with a golden file's first line
  std::vector<std::string> damaged = {};  // of a folder: without that line, and once a golden file
  std::vector<std::string> others = {};   // other text files of a folder
  std::vector<Error> unread = {};         // paths where nothing is, folders that cannot be read

  std::vector<std::string> all() const;  // files and damaged ones
};

/// Looks at all that paths name. A file without the first line was a golden one where its name has
/// a class, something of one is left in it or nothing at all, where it cannot be read, and where it
/// is no file (a pipe, a link to nothing). A file of several names (`a.txt`, `./a.txt`) is one, and
/// all of a folder are called by that folder's first.
[[nodiscard]] FoundFiles find_golden_files(const std::vector<std::string>& paths);

/// The golden files that paths name, by path; damaged ones are left out.
/// Errors: kIncomplete for a path where nothing is, and for a folder without a golden file.
[[nodiscard]] std::vector<std::string> golden_files(const std::vector<std::string>& paths);

/// Whether a file is a golden one, or has lines of one without the first.
[[nodiscard]] bool was_golden_file(const std::string& path);

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
