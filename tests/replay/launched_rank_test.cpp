#include "src/replay/run/launched_rank.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <map>

#include "src/base/error.h"

using namespace rlreplay;
using namespace rlreplay::replay;

namespace {

using Variables = std::map<std::string, std::string>;

std::optional<LaunchedRank> rank_in(const Variables& variables) {
  return launched_rank([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

std::string refusal_in(const Variables& variables, ErrorCode code = ErrorCode::kUsage) {
  try {
    rank_in(variables);
  } catch (const Error& e) {
    CHECK(e.code() == code);
    return e.what();
  }
  return "nothing was thrown";
}

const Variables kTorchrun{{"RANK", "3"},
                          {"WORLD_SIZE", "4"},
                          {"LOCAL_WORLD_SIZE", "2"},
                          {"MASTER_ADDR", "node1"},
                          {"MASTER_PORT", "29500"},
                          {"TORCHELASTIC_RUN_ID", "abc"}};
const Variables kMpirun{{"OMPI_COMM_WORLD_RANK", "1"},
                        {"OMPI_COMM_WORLD_SIZE", "2"},
                        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                        {"PMIX_NAMESPACE", "77"}};
const Variables kSrun{{"SLURM_PROCID", "0"},         {"SLURM_STEP_NUM_TASKS", "8"},
                      {"SLURM_STEP_NUM_NODES", "2"}, {"SLURM_STEP_NODELIST", "gpu-[07-08]"},
                      {"SLURM_JOB_ID", "123456"},    {"SLURM_STEP_ID", "0"}};

Variables with(Variables variables, const std::string& name, const std::string& value) {
  variables[name] = value;
  return variables;
}

}  // namespace

TEST_CASE("each launcher's variables say which rank this is and where rank 0 listens") {
  const auto torchrun = rank_in(kTorchrun).value();
  CHECK(torchrun.launcher == "torchrun");
  CHECK(torchrun.rank == 3);
  CHECK(torchrun.size == 4);
  CHECK(torchrun.local_size == 2);
  CHECK(torchrun.addresses.size() == 8);
  CHECK(torchrun.addresses.front() == "node1:29501");  // torchrun itself has MASTER_PORT
  CHECK(torchrun.token == "abc of port 29500");

  const auto mpirun = rank_in(kMpirun).value();
  CHECK(mpirun.launcher == "mpirun");
  CHECK(mpirun.rank == 1);
  CHECK(mpirun.addresses == std::vector<std::string>{"unix:@rlreplay-mpi-77"});

  const auto srun = rank_in(kSrun).value();
  CHECK(srun.launcher == "srun");
  CHECK(srun.size == 8);
  CHECK(srun.local_size == 4);
  CHECK(srun.addresses.front() == "gpu-07:23457");
  CHECK(srun.token == "123456.0");
  CHECK(rank_in(with(kSrun, "SLURM_STEP_NUM_NODES", "1"))->addresses ==
        std::vector<std::string>{"unix:@rlreplay-slurm-123456.0"});
}

TEST_CASE("torchrun inside of srun or mpirun decides") {
  Variables all = kTorchrun;
  all.insert(kSrun.begin(), kSrun.end());
  all.insert(kMpirun.begin(), kMpirun.end());
  CHECK(rank_in(all)->launcher == "torchrun");
}

TEST_CASE("jobs of torchrun on one host, whose ids are all none, are told apart by their ports") {
  const Variables job = with(kTorchrun, "TORCHELASTIC_RUN_ID", "none");
  CHECK(rank_in(job)->token != rank_in(with(job, "MASTER_PORT", "29502"))->token);
}

TEST_CASE("RANK and WORLD_SIZE of a shell that a launcher does not mean are refused by both") {
  Variables shell = kTorchrun;
  shell.erase("TORCHELASTIC_RUN_ID");
  for (const auto& [rank, size] :
       {std::pair("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        std::pair("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"), std::pair("PMI_RANK", "PMI_SIZE")}) {
    const auto launched = [&shell, rank = rank, size = size](const char* own, const char* all) {
      return with(with(shell, rank, own), size, all);
    };
    CHECK(rank_in(launched("3", "4"))->rank == 3);
    CHECK(rank_in(launched("0", "1"))->rank == 3);  // one task, in which a shell counts
    for (const auto& [own, all] : {std::pair("1", "4"), std::pair("3", "8")}) {
      const std::string said = refusal_in(launched(own, all));
      CHECK(said.find("RANK 3 of WORLD_SIZE 4") != std::string::npos);
      CHECK(said.find(std::string(rank) + " " + own + " of " + size + " " + all) !=
            std::string::npos);
    }
  }
}

TEST_CASE("a launcher that does not say where rank 0 is is refused by its variables") {
  for (const Variables& variables :
       {Variables{{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}}, Variables{{"PMIX_RANK", "1"}},
        Variables{{"MV2_COMM_WORLD_RANK", "1"}, {"MV2_COMM_WORLD_SIZE", "4"}}}) {
    const std::string said = refusal_in(variables, ErrorCode::kUnsupported);
    CHECK(said.find(variables.begin()->first + " 1") != std::string::npos);
  }
  CHECK(!rank_in({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}));
  CHECK(rank_in(with(kMpirun, "PMIX_RANK", "1"))->launcher == "mpirun");
}

TEST_CASE("one rank, or variables of a batch script alone, are no launch") {
  CHECK(!rank_in({}));
  CHECK(!rank_in({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}));
  CHECK(!rank_in({{"RANK", "0"}, {"WORLD_SIZE", "1"}}));
  CHECK(!rank_in({{"RANK", "5"}}));
}

TEST_CASE("variables that do not go together are refused") {
  CHECK(refusal_in(with(kTorchrun, "RANK", "4")).starts_with("RANK is 4 and WORLD_SIZE 4"));
  CHECK(refusal_in(with(kTorchrun, "RANK", "x")) == "RANK is \"x\": a number was expected");
  CHECK(refusal_in(with(kTorchrun, "MASTER_ADDR", "")).find("MASTER_ADDR is not") !=
        std::string::npos);
  CHECK(refusal_in(with(kMpirun, "OMPI_COMM_WORLD_LOCAL_SIZE", "1"))
            .starts_with("mpirun started ranks on several machines"));
  CHECK(refusal_in(with(kSrun, "SLURM_STEP_NODELIST", "")) ==
        "srun has set no SLURM_STEP_NODELIST");
}

TEST_CASE("what this program sets for its ranks is read back") {
  LaunchedRank rank;
  rank.rank = 2;
  rank.size = 4;
  rank.addresses = {"unix:@x"};
  rank.token = "t";
  Variables variables;
  for (const auto& [name, value] : variables_of(rank)) variables[name] = value.value();
  const auto read = rank_in(variables).value();
  CHECK(read.launcher == "rlreplay");
  CHECK(read.rank == 2);
  CHECK(read.size == 4);
  CHECK(read.local_size == 4);
  CHECK(read.addresses == rank.addresses);
  CHECK(read.token == "t");
}

TEST_CASE("the first host of a list of Slurm's") {
  CHECK(first_host("node7") == "node7");
  CHECK(first_host("a,b[1-2]") == "a");
  CHECK(first_host("node[03-05,7],other") == "node03");
  CHECK(first_host("n[9]") == "n9");
}
