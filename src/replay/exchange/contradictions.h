#pragma once

#include <map>
#include <string>
#include <vector>

#include "format/dataset.h"
#include "format/foreign/torch_file.h"
#include "src/replay/exchange/file_findings.h"

namespace rlreplay::replay {

/// What the files of an import contradict themselves, each other and their names in: the dump keeps
/// it, for its units hold one file's say. Each finding carries the hash of all that its file says:
/// two imports are the same only where the files that contradict are.
class Contradictions {
 public:
  /// `name`: of the file in its run, which takes its path's place in `where`.
  void add(foreign::Problem problem, const std::string& name, const foreign::TorchFile& file);

  /// Adds what contradicts nothing, and so goes without the hash.
  void add_note(foreign::Problem problem, const std::string& name, const foreign::TorchFile& file);

  /// Adds a problem as it stands, with neither the name of a file nor a hash.
  void add(const foreign::Problem& problem) { findings_.add("", "", problem); }

  [[nodiscard]] bool empty() const { return findings_.empty(); }
  /// The content of the unit (import_findings.h).
  std::vector<format::Dataset> datasets() const;

 private:
  FileFindings findings_;
  std::map<std::string, std::string> tails_;  // what ends the places of files, by name
};

}  // namespace rlreplay::replay
