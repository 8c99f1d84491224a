#pragma once

#include <string>
#include <vector>

namespace rlreplay::replay {

/// A file to be read, and the name that it has in its run.
struct SourceFile {
  std::string path;
  std::string name;  // "train_data/0_1.pt"
};

/// The files with this ending at and below the paths, by name. A folder that is itself one of a run
/// (`train_data`) stays part of the name. Files that belong together by name (`0_0.pt`, `0_1.pt`)
/// make one entry. Errors: kIncomplete where a path does not exist.
std::vector<std::vector<SourceFile>> find_sources(const std::vector<std::string>& paths,
                                                  const std::string& ending);

}  // namespace rlreplay::replay
