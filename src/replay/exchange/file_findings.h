#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "format/foreign/tree_check.h"

namespace rlreplay::replay {

/// In what the files of an import contradict themselves, gathered file by file in a few bytes a
/// place: a small file can hold a great many that are alike.
class FileFindings {
 public:
  /// Of the file with this name in its run; `tail`: what ends each of its places.
  void add(const std::string& name, const std::string& tail, const foreign::Problem& found);

  /// Each as findings_datasets takes it, its place between name and tail: of one code and message
  /// the first 20, of which the last says how many more there were, and the hash of all.
  std::vector<foreign::Problem> finish() const;

 private:
  /// A file, and a sample of it or, below 0, one of `texts_`.
  struct Place {
    size_t file = 0;
    ptrdiff_t at = 0;
  };

  std::string text(const Place& place) const;

  std::vector<std::pair<std::string, std::string>> files_;  // names and tails
  std::vector<std::string> texts_;
  std::map<std::pair<std::string, std::string>, std::vector<Place>> alike_;
};

}  // namespace rlreplay::replay
