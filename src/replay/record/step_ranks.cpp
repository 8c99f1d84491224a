#include "src/replay/record/step_ranks.h"

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "format/unit.h"
#include "src/base/hash.h"
#include "src/base/number_text.h"
#include "src/base/same_value.h"

namespace rlreplay::replay {
namespace {

/// Samples and their micro-batches, by sample.
std::vector<std::pair<uint64_t, uint32_t>> by_sample(const format::TrainData& data) {
  std::vector<std::pair<uint64_t, uint32_t>> out;
  for (size_t row = 0; row < data.size(); ++row) {
    out.emplace_back(data.sample_id[row], (*data.micro_batch)[row]);
  }
  std::ranges::sort(out);
  return out;
}

/// What ranks of a step say differently and may not.
class RankCheck {
 public:
  RankCheck(const RecordedRun& run, const StepId& step, const RefusalGuard& guard)
      : run_(run), step_(step), guard_(guard) {}

  void run(const std::vector<StepRank>& ranks) const {
    std::map<std::string, const StepRank*> by_name;  // whoever says a number of the step's first
    std::map<Hash, std::vector<const StepRank*>> replicas;
    for (const StepRank& rank : ranks) {
      scalars(rank, ScalarOf::kStep, by_name);
      replicas[rank.samples].push_back(&rank);
    }
    for (const auto& [samples, alike] : replicas) {
      by_name.clear();
      const StepRank* packed = nullptr;  // whoever says how first
      for (const StepRank* rank : alike) {
        scalars(*rank, ScalarOf::kSamples, by_name);
        if (!rank->data.micro_batch) continue;
        if (packed != nullptr) packing(*packed, *rank);
        if (packed == nullptr) packed = rank;
      }
    }
  }

 private:
  void scalars(const StepRank& rank, ScalarOf of,
               std::map<std::string, const StepRank*>& by_name) const {
    if (!rank.data.scalars) return;
    const format::NamedColumns& own = *rank.data.scalars;
    for (size_t i = 0; i < own.names.size(); ++i) {
      if (scalar_of(own.names[i]) != of) continue;
      const StepRank& first = *by_name.emplace(own.names[i], &rank).first->second;
      const double said = *first.data.scalars->find(own.names[i]);
      if (&first == &rank || same_value(own.values[i], said)) continue;
      guard_.run("train/" + step_.group(), [&] {
        throw RecordRefusal(
            "replica-mismatch", std::nullopt, ErrorCode::kCorrupt,
            "step " + step_.name() + " has another " + own.names[i] + " in " + rank.unit->path +
                " than in " + first.unit->path + " (" + shortest_of(own.values[i]) + ", not " +
                shortest_of(said) +
                (of == ScalarOf::kStep ? "): it is one number for all ranks of a step"
                                       : "): both hold the same samples"),
            run_.path());
      });
    }
  }

  /// Refuses two ranks that hold the same samples and pack them into other micro-batches.
  void packing(const StepRank& first, const StepRank& rank) const {
    const auto packed = by_sample(first.data), other = by_sample(rank.data);
    const auto parted = std::ranges::mismatch(packed, other);
    const auto at = parted.in1, differs = parted.in2;  // clang captures no structured binding
    if (at == packed.end()) return;
    guard_.run("train/" + step_.group(), [&] {
      throw RecordRefusal("replica-mismatch", at->first, ErrorCode::kCorrupt,
                          "sample " + std::to_string(at->first) + " of step " + step_.name() +
                              " has another micro_batch in " + rank.unit->path + " than in " +
                              first.unit->path + " (" + std::to_string(differs->second) + ", not " +
                              std::to_string(at->second) + "): both hold the same samples",
                          run_.path());
    });
  }

  const RecordedRun& run_;
  const StepId& step_;
  const RefusalGuard& guard_;
};

}  // namespace

StepScalars scalars_of(const std::vector<StepRank>& ranks) {
  std::vector<std::pair<int64_t, format::NamedColumns>> scalars;
  for (const StepRank& rank : ranks) {
    if (!rank.data.scalars) continue;
    scalars.emplace_back(format::rank_of(rank.unit->path), *rank.data.scalars);
  }
  return join_scalars(scalars);
}

void check_step_ranks(const RecordedRun& run, const StepId& step,
                      const std::vector<StepRank>& ranks, const RefusalGuard& guard) {
  RankCheck(run, step, guard).run(ranks);
}

void join_members(const RecordedRun& run, const StepId& step, StepMember& to, StepMember&& from) {
  const std::string unit = from.unit;
  const auto differs = merge(to, std::move(from));
  if (!differs) return;
  const bool twice = to.unit == unit;
  throw RecordRefusal(
      "replica-mismatch", to.id, ErrorCode::kCorrupt,
      "sample " + std::to_string(to.id) + " of step " + step.name() +
          (twice ? " stands twice in " + to.unit + ", with other " : " has other ") +
          differs->field + (twice ? "" : " in " + unit + " than in " + to.unit) + " (" +
          (differs->token ? "token " + std::to_string(*differs->token) + ": " : "") +
          differs->from + ", not " + differs->to +
          "): which of them was trained on cannot be known",
      run.path());
}

}  // namespace rlreplay::replay
