#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "format/foreign/tree_check.h"
#include "src/base/hash.h"

namespace rlreplay::replay {

/// What an import found in its files, gathered in a few bytes a place: a small file can hold a
/// great many that are alike.
class FileFindings {
 public:
  /// Adds what was found of the file with this name in its run, empty: of none. `tail` ends each of
  /// the places of that file.
  void add(const std::string& name, const std::string& tail, const foreign::Problem& found);

  [[nodiscard]] bool empty() const { return alike_.empty(); }

  /// The findings, each with its place between name and tail. Of contradictions of one code and
  /// message, and of steps whose policy's terms were not judged, they are the first 20, of others
  /// the first; the last says how many more there were and, of contradictions, the hash of all:
  /// others hash otherwise.
  [[nodiscard]] std::vector<foreign::Problem> finish() const;

 private:
  /// A file, and a row of it or, below 0, one of `texts_`.
  struct Place {
    size_t file = 0;
    ptrdiff_t at = 0;
  };

  std::string text(const Place& place) const;
  Hash hash_of_all(const std::vector<Place>& places) const;

  std::vector<std::pair<std::string, std::string>> files_;         // names and tails
  std::map<std::pair<std::string, std::string>, size_t> numbers_;  // places in files_
  std::vector<std::string> texts_;
  std::map<std::pair<std::string, std::string>, std::vector<Place>> alike_;
};

}  // namespace rlreplay::replay
