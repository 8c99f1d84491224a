#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/engine/rank_meeting.h"

namespace rlreplay::replay {

/// Which rank of a run a launcher started this process as.
struct LaunchedRank {
  std::string launcher;  // "torchrun", "mpirun", "srun", "rlreplay"
  int rank = 0;
  int size = 1;
  int local_size = 1;  // ranks on this machine
  std::vector<std::string> addresses;
  std::string token;

  /// How it meets the others.
  engine::RankMeeting meeting() const;
};

using Environment = std::function<std::optional<std::string>(const std::string& name)>;

/// The rank that the variables of torchrun, mpirun (Open MPI), srun or rlreplay itself name;
/// nothing where none of them started more than one rank. Errors: kUsage for variables that do not
/// go together, and where ranks on several machines are not told where rank 0 is; kUnsupported for
/// a process that another launcher of MPI started.
[[nodiscard]] std::optional<LaunchedRank> launched_rank(const Environment& environment);

/// Which rank this process was started as, by its own environment. Errors: as above.
[[nodiscard]] std::optional<LaunchedRank> launched_rank();

/// Sees that a launcher did not start this process as another than the first of several, for what
/// one process does. Variables of a first one may be those of a shell in a launcher's allocation.
/// Errors: kUsage.
void check_first_process(const Environment& environment);

/// The variables of this process.
[[nodiscard]] Environment own_environment();

/// The variables that make a process such a rank.
[[nodiscard]] std::vector<std::pair<std::string, std::optional<std::string>>> variables_of(
    const LaunchedRank& rank);

/// The first host of Slurm's list: "node03" of "node[03-05,7]".
[[nodiscard]] std::string first_host(std::string_view list);

}  // namespace rlreplay::replay
