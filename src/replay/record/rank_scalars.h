#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "format/sample_columns.h"

/// The scalars of a step that several ranks recorded: a rank's are its own, and ranks may say other
/// numbers (format/SPEC.md, train).
namespace rlreplay::replay {

/// The scalars of a step: those that ranks agree on, and the rest by rank.
struct StepScalars {
  struct OfRank {
    std::string name;
    int64_t rank = 0;
    double value = 0;
    /// "pg_loss@1"; a recorded name may hold an @ of its own.
    std::string text() const { return name + "@" + std::to_string(rank); }
  };

  format::NamedColumns agreed;    // by all ranks that recorded them
  std::vector<OfRank> differing;  // all ranks of one name behind one another

  /// A scalar on which all ranks agree that recorded it; nothing for any other.
  [[nodiscard]] std::optional<double> find(std::string_view name) const {
    return agreed.find(name);
  }
};

/// Whose a scalar is, by its name. kStep: the step's, which all of its ranks say alike. kSamples:
/// of samples, which ranks that hold the same ones say alike. kRank: a rank's own, as times are.
enum class ScalarOf { kStep, kSamples, kRank };
[[nodiscard]] ScalarOf scalar_of(std::string_view name);

/// Joins the scalars of ranks, given with their ranks. A name is agreed on where all that recorded
/// it have the same bits. Order: names as the ranks, one after the other, first say them.
[[nodiscard]] StepScalars join_scalars(
    const std::vector<std::pair<int64_t, format::NamedColumns>>& by_rank);

/// "pg_loss@0 -1, pg_loss@1 999": where ranks differ, of NAME alone where there is one.
[[nodiscard]] std::string numbers_by_rank(const StepScalars& scalars, std::string_view name = {});

}  // namespace rlreplay::replay
