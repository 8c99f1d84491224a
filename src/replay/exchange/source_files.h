#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "format/foreign/tree_check.h"

namespace rlreplay::replay {

/// A file to be read, and the name that it has in its run.
struct SourceFile {
  std::string path;
  std::string name;  // "train_data/0_1.pt"
};

/// The files with this ending at and below the paths, by name. A folder that is itself one of a run
/// (`train_data`) stays part of the name. Files that belong together by name (`0_0.pt`, `0_1.pt`)
/// make one entry. Links are followed. Of other file systems that are mounted below a path, only
/// those at a folder of a run are looked at.
/// Errors: kIncomplete where a path does not exist or what has the ending is no file; kUsage for a
/// folder of so much else that it is no run's; kEnvironment.
[[nodiscard]] std::vector<std::vector<SourceFile>> find_sources(
    const std::vector<std::string>& paths, const std::string& ending);

/// Whether a name says which rank of which rollout the file is of: `0_1.pt`.
[[nodiscard]] bool names_rank(const std::string& name);

/// Holds every rollout of a folder to the ranks that the folder's other rollouts have files of: a
/// rank-missing for each file that is not there, with its path; of more than `most` one
/// `more-problems` at the end counts the others.
[[nodiscard]] std::vector<foreign::Problem> find_rank_gaps(
    const std::vector<std::vector<SourceFile>>& sources, size_t most = 100);

/// Sees that no rank's file is missing, as find_rank_gaps looks. Errors: kIncomplete, of the first.
void check_ranks(const std::vector<std::vector<SourceFile>>& sources);

/// The files without this ending below a folder, by their paths from there.
/// Errors: as of find_sources.
[[nodiscard]] std::vector<std::string> other_names(const std::string& folder,
                                                   const std::string& ending);

/// How many files without this ending lie below the paths: by file, or folder (`trajectory/`).
[[nodiscard]] std::map<std::string, size_t> other_files(const std::vector<std::string>& paths,
                                                        const std::string& ending);

}  // namespace rlreplay::replay
