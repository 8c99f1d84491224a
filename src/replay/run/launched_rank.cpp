#include "src/replay/run/launched_rank.h"

#include <algorithm>
#include <cstdlib>
#include <span>
#include <utility>

#include "src/base/build_info.h"
#include "src/base/error.h"
#include "src/base/layout.h"
#include "src/base/number_text.h"

namespace rlreplay::replay {
namespace {

constexpr int kPorts = 8;              // that rank 0 tries, behind MASTER_PORT, which torchrun has
constexpr int64_t kSlurmPort = 20000;  // and as many above it as there are jobs to tell apart
constexpr int64_t kSlurmPorts = 20000;

int64_t number(const Environment& environment, const std::string& name) {
  const auto text = environment(name);
  if (!text) throw Error(ErrorCode::kUsage, "the launcher has set no " + name);
  const auto value = parse_number<int64_t>(*text);
  if (!value || *value < 0) {
    throw Error(ErrorCode::kUsage, name + " is \"" + *text + "\": a number was expected");
  }
  return *value;
}

void set_place(LaunchedRank& out, const Environment& environment, const std::string& rank,
               const std::string& size, const std::string& local_size) {
  const int64_t own = number(environment, rank), all = number(environment, size);
  if (own >= all || all > kMaxRanks) {
    throw Error(ErrorCode::kUsage, rank + " is " + std::to_string(own) + " and " + size + " " +
                                       std::to_string(all) + ": ranks are counted from 0, up to " +
                                       std::to_string(kMaxRanks));
  }
  out.rank = static_cast<int>(own);
  out.size = static_cast<int>(all);
  if (environment(local_size)) out.local_size = static_cast<int>(number(environment, local_size));
  if (out.local_size < 1 || out.local_size > out.size) out.local_size = out.size;
}

void listen_behind(LaunchedRank& out, const std::string& host, int64_t port) {
  const bool is_v6 = host.find(':') != std::string::npos && host.front() != '[';
  for (int i = 1; i <= kPorts && port + i <= 65535; ++i) {
    out.addresses.push_back((is_v6 ? "[" + host + "]" : host) + ":" + std::to_string(port + i));
  }
  if (out.addresses.empty()) throw Error(ErrorCode::kUsage, "MASTER_PORT is at most 65534");
}

/// MASTER_ADDR and MASTER_PORT, where they are given. The port tells jobs of one host apart, whose
/// ports may overlap: torchrun's own id of a job is "none" unless it is given one.
bool has_master(LaunchedRank& out, const Environment& environment) {
  const auto host = environment("MASTER_ADDR");
  if (!host || host->empty()) return false;
  const int64_t port = number(environment, "MASTER_PORT");
  listen_behind(out, *host, port);
  out.token += " of port " + std::to_string(port);
  return true;
}

std::string value(const Environment& environment, const std::string& name) {
  return environment(name).value_or("");
}

LaunchedRank of_rlreplay(const Environment& environment) {
  LaunchedRank out;
  out.launcher = "rlreplay";
  set_place(out, environment, "RLREPLAY_RANK", "RLREPLAY_RANKS", "RLREPLAY_RANKS");
  out.addresses = {value(environment, "RLREPLAY_RANKS_ADDRESS")};
  out.token = value(environment, "RLREPLAY_RANKS_TOKEN");
  return out;
}

LaunchedRank of_torchrun(const Environment& environment) {
  LaunchedRank out;
  out.launcher = "torchrun";
  set_place(out, environment, "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE");
  out.token = value(environment, "TORCHELASTIC_RUN_ID");
  if (out.size > 1 && !has_master(out, environment)) {
    throw Error(ErrorCode::kUsage,
                "RANK and WORLD_SIZE are set and MASTER_ADDR is not: it says where rank 0 is");
  }
  return out;
}

LaunchedRank of_mpirun(const Environment& environment) {
  LaunchedRank out;
  out.launcher = "mpirun";
  set_place(out, environment, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
            "OMPI_COMM_WORLD_LOCAL_SIZE");
  out.token = value(environment, "PMIX_NAMESPACE");
  if (out.size == 1 || has_master(out, environment)) return out;
  if (out.local_size != out.size || out.token.empty()) {
    throw Error(ErrorCode::kUsage,
                "mpirun started ranks on several machines: say where rank 0 is, with mpirun -x "
                "MASTER_ADDR=HOST -x MASTER_PORT=PORT");
  }
  out.addresses = {"unix:@rlreplay-mpi-" + out.token};
  return out;
}

LaunchedRank of_srun(const Environment& environment) {
  LaunchedRank out;
  out.launcher = "srun";
  set_place(out, environment, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NUM_TASKS");
  const std::string job = value(environment, "SLURM_JOB_ID");
  out.token = job + "." + value(environment, "SLURM_STEP_ID");
  const int64_t nodes =
      environment("SLURM_STEP_NUM_NODES") ? number(environment, "SLURM_STEP_NUM_NODES") : 1;
  if (nodes > 1) out.local_size = static_cast<int>((out.size + nodes - 1) / nodes);
  if (out.size == 1 || has_master(out, environment)) return out;
  if (nodes == 1) {
    out.addresses = {"unix:@rlreplay-slurm-" + out.token};
    return out;
  }
  const std::string host = first_host(value(environment, "SLURM_STEP_NODELIST"));
  if (host.empty()) throw Error(ErrorCode::kUsage, "srun has set no SLURM_STEP_NODELIST");
  listen_behind(out, host, kSlurmPort + number(environment, "SLURM_JOB_ID") % kSlurmPorts);
  return out;
}

/// The variables by which a launcher counts its processes; `size` may be none.
struct Count {
  const char *launcher, *rank, *size;
};

constexpr Count kShell[] = {{"torchrun", "RANK", "WORLD_SIZE"}};
constexpr Count kUsable[] = {{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                             {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}};
constexpr Count kUnusable[] = {{"an MPI launcher", "PMI_RANK", "PMI_SIZE"},
                               {"an MPI launcher", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
                               {"an MPI launcher", "PMIX_RANK", ""}};

/// "PMI_RANK 1 of PMI_SIZE 4"
std::string counted_by(const Environment& environment, const Count& by) {
  std::string out = std::string(by.rank) + " " + value(environment, by.rank);
  if (environment(by.size))
    out += std::string(" of ") + by.size + " " + value(environment, by.size);
  return out;
}

/// RANK and WORLD_SIZE that torchrun has not set come from a shell, which every process of a
/// launcher inherits: each would be the same rank. Errors: kUsage where the launcher counts
/// otherwise.
void check_same_count(const Environment& environment) {
  if (environment("TORCHELASTIC_RUN_ID") || environment("LOCAL_RANK")) return;
  const Count& own = kShell[0];
  const auto differs = [&](const Count& by) {
    if (!environment(by.rank) || !environment(by.size) || value(environment, by.size) == "1") {
      return false;
    }
    return value(environment, by.rank) != value(environment, own.rank) ||
           value(environment, by.size) != value(environment, own.size);
  };
  for (const auto launchers :
       {std::span<const Count>(kUsable), std::span<const Count>(kUnusable)}) {
    const auto other = std::ranges::find_if(launchers, differs);
    if (other == launchers.end()) continue;
    throw Error(ErrorCode::kUsage,
                "this process is " + counted_by(environment, own) + ", and " + other->launcher +
                    " started it as " + counted_by(environment, *other) +
                    ": unset RANK and WORLD_SIZE, or set them to what the launcher says");
  }
}

/// Errors: kUnsupported for a process of a launcher that does not say where rank 0 is: each would
/// take itself for the only one.
void refuse_unusable(const Environment& environment) {
  for (const Count& by : kUnusable) {
    if (!environment(by.rank) || value(environment, by.size) == "1") continue;
    throw Error(ErrorCode::kUnsupported,
                std::string("ranks cannot be started by this MPI launcher (") +
                    counted_by(environment, by) +
                    "): use torchrun, srun or mpirun of Open MPI, or give each process RANK, "
                    "WORLD_SIZE, MASTER_ADDR and MASTER_PORT; for a run of one rank unset " +
                    by.rank);
  }
}

}  // namespace

engine::RankMeeting LaunchedRank::meeting() const {
  engine::RankMeeting out;
  out.rank = rank;
  out.size = size;
  out.addresses = addresses;
  out.token = token;
  out.program = program_version_line();
  return out;
}

std::optional<LaunchedRank> launched_rank(const Environment& environment) {
  const auto has = [&](const char* name) { return environment(name).has_value(); };
  std::optional<LaunchedRank> out;
  if (has("RLREPLAY_RANKS_ADDRESS")) {
    out = of_rlreplay(environment);
  } else if (has("RANK") && has("WORLD_SIZE")) {
    check_same_count(environment);
    out = of_torchrun(environment);
  } else if (has("OMPI_COMM_WORLD_RANK")) {
    out = of_mpirun(environment);
  } else if (has("SLURM_PROCID") && has("SLURM_STEP_NUM_TASKS")) {
    out = of_srun(environment);
  } else {
    refuse_unusable(environment);
  }
  if (out && out->size == 1) out.reset();
  return out;
}

std::optional<LaunchedRank> launched_rank() { return launched_rank(own_environment()); }

void check_first_process(const Environment& environment) {
  for (const auto counts : {std::span<const Count>(kShell), std::span<const Count>(kUsable),
                            std::span<const Count>(kUnusable)}) {
    for (const Count& by : counts) {
      const auto rank = environment(by.rank);
      const bool counts_all = *by.size == '\0' || environment(by.size);
      if (!rank || !counts_all || *rank == "0" || value(environment, by.size) == "1") continue;
      throw Error(ErrorCode::kUsage, std::string("this verb is one process, and ") + by.launcher +
                                         " started it as " + counted_by(environment, by) +
                                         ": start it once, or unset " + by.rank);
    }
  }
}

Environment own_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

std::vector<std::pair<std::string, std::optional<std::string>>> variables_of(
    const LaunchedRank& rank) {
  return {{"RLREPLAY_RANK", std::to_string(rank.rank)},
          {"RLREPLAY_RANKS", std::to_string(rank.size)},
          {"RLREPLAY_RANKS_ADDRESS", rank.addresses.front()},
          {"RLREPLAY_RANKS_TOKEN", rank.token}};
}

std::string first_host(std::string_view list) {
  const size_t bracket = list.find('['), comma = list.find(',');
  if (bracket == std::string_view::npos || comma < bracket)
    return std::string(list.substr(0, comma));
  const std::string_view numbers = list.substr(bracket + 1);
  return std::string(list.substr(0, bracket)) +
         std::string(numbers.substr(0, numbers.find_first_of("-,]")));
}

}  // namespace rlreplay::replay
