// Dumps in the forms of the frameworks: train data put together from all ranks must say of
// every sample what the rollout dump says of it.
#include <cmath>
#include <deque>
#include <map>

#include "format/foreign/framework.h"
#include "format/foreign/numbers.h"
#include "format/foreign/rollout_file.h"
#include "format/foreign/train_batch.h"
#include "tests/foreign/support.h"
#include "tests/material.h"

namespace rlreplay::foreign {
namespace {

namespace fs = std::filesystem;

/// The train files of each rollout of a run, by rollout id.
std::map<std::string, std::vector<fs::path>> train_files(const fs::path& run) {
  std::map<std::string, std::vector<fs::path>> files;
  for (const auto& entry : fs::directory_iterator(run / "train_data")) {
    if (entry.path().extension() != ".pt") continue;
    const std::string stem = entry.path().stem().string();
    files[stem.substr(0, stem.find('_'))].push_back(entry.path());
  }
  return files;
}

/// Whether a train value is the rollout's, in the precision that the trainer kept.
bool agrees(double trained, double rolled) {
  const auto narrow = static_cast<double>(static_cast<float>(rolled));
  return trained == narrow || std::abs(trained - narrow) <= std::abs(narrow) * 0x1p-8;
}

void compare(const TrainBatch& train, const TorchFile& file) {
  const RolloutFile rollout = read_rollout(file.tree(), file.root());
  std::map<int64_t, size_t> rows;
  for (size_t i = 0; i < rollout.size(); ++i) rows[rollout.index[i].value_or(-1)] = i;
  const FloatColumn* log_probs = train.column("rollout_log_probs");
  REQUIRE(log_probs != nullptr);
  size_t exact = 0;
  size_t tokens = 0;
  for (size_t i = 0; i < train.size(); ++i) {
    INFO("sample " << train.sample_index[i]);
    REQUIRE(rows.count(train.sample_index[i]) == 1);
    const size_t row = rows[train.sample_index[i]];
    REQUIRE(train.response_lengths[i] == rollout.response_lengths[row]);
    const auto ids = Numbers::of(file.tree(), rollout.tokens[row]);
    REQUIRE(train.offsets[i + 1] - train.offsets[i] == ids->size());
    for (size_t t = 0; t < ids->size(); ++t) {
      REQUIRE(train.tokens[train.offsets[i] + t] == ids->integer(t));
    }
    const auto column = Numbers::of(file.tree(), rollout.log_probs[row]);
    REQUIRE(log_probs->row_size(i) == column->size());
    for (size_t t = 0; t < log_probs->row_size(i); ++t) {
      const double rolled = column->real(t);
      REQUIRE(agrees(log_probs->at(i, t), rolled));
      exact += log_probs->at(i, t) == static_cast<double>(static_cast<float>(rolled)) ? 1 : 0;
      ++tokens;
    }
  }
  CHECK(tokens > 0);
  CHECK((exact == tokens || train.replicas == 2));  // one run keeps bf16
}

void check_runs(const fs::path& folder) {
  size_t rollouts = 0;
  for (const char* framework :
       {"slime-latest", "slime-old", "slime-2025", "miles-latest", "relax"}) {
    for (const auto& run : fs::directory_iterator(folder / framework)) {
      for (const auto& [id, paths] : train_files(run.path())) {
        INFO(run.path().string() << " rollout " << id);
        std::deque<TorchFile> files;
        std::vector<const TorchFile*> pointers;
        for (const fs::path& path : paths) {
          files.emplace_back(path.string());
          pointers.push_back(&files.back());
        }
        const TrainBatch train = assemble_train(pointers);
        const TorchFile rollout((run.path() / "rollout_data" / (id + ".pt")).string());
        compare(train, rollout);
        const std::string name = run.path().filename().string();
        const bool restored = std::string(framework) == "slime-latest";
        CHECK(train.cp_size == (name.find("cp2") != name.npos && !restored ? 2 : 1));
        // The framework leaves one column cut when it restores; in one run the log-probabilities of
        // tensor-parallel ranks truly differ.
        const bool cut = restored && name.find("cp2") != name.npos;
        const bool differs = std::string(framework) == "slime-old" && name == "grpo-tp2dp2";
        CHECK(train.findings.empty() == (!cut && !differs));
        for (const Problem& finding : train.findings) {
          INFO(finding.message);
          CHECK(finding.code == (cut ? "partial-column" : "replica-mismatch"));
          CHECK(finding.message.starts_with(cut ? "ref_entropy" : "log_probs of rank"));
        }
        ++rollouts;
      }
    }
  }
  CHECK(rollouts >= 18);
}

TEST_CASE("every run's train data, put together, says what its rollout dump says") {
  for (const fs::path& folder : test::material_folders()) check_runs(folder / "dumps");
}

TEST_CASE("every dump is attributed to its framework") {
  const auto check_in = [&](const fs::path& folder, Framework framework) {
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      const bool payload = entry.path().string().find("/payloads/") != std::string::npos;
      if (entry.path().extension() != ".pt" || payload) continue;
      INFO(entry.path().string());
      const TorchFile file(entry.path().string());
      CHECK(to_string(identify_dump(file.tree(), file.root()).framework) == to_string(framework));
    }
  };
  const auto check = [&](const char* name, Framework framework) {
    for (const fs::path& folder : test::material_folders()) {
      check_in(folder / "dumps" / name, framework);
    }
  };
  check("slime-latest", Framework::kSlime);
  check("slime-old", Framework::kSlime);
  check("slime-2025", Framework::kSlime);
  check("miles-latest", Framework::kMiles);
  check("relax", Framework::kRelax);
}

}  // namespace
}  // namespace rlreplay::foreign
