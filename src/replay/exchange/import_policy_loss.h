#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "format/foreign/torch_file.h"
#include "format/foreign/tree_check.h"
#include "format/train_data.h"
#include "src/replay/exchange/alike_rows.h"
#include "src/replay/exchange/policy_loss_row.h"

namespace rlreplay::replay {

/// Something that was found of files of policy_loss_debug: of the one with this name, or of a step.
struct PolicyLossFinding {
  std::string file;          // empty of a step
  size_t row = 0;            // of the file
  foreign::Problem problem;  // its place within the file, or the step
};

/// What Miles' policy_loss_debug files say of samples, until the training data that they belong to
/// is there: the log-probabilities of the step's own forward pass, and the policy's terms. The
/// files name neither rollout nor sample (their index counts within a micro-batch), so a sample is
/// known by its lengths and the bits of its old log-probabilities, which are the sampler's where
/// the trainer took those (--use-rollout-logprobs).
class PolicyLossRows {
 public:
  /// `name`: the file's in its run. Errors: as read_policy_loss.
  void add(const foreign::TorchFile& file, const std::string& name);

  /// Gives each sample of a step the row that fits it, once, and holds what the row repeats of the
  /// training data against it. Of several that fit the first that agrees is taken. `cut`: whether
  /// context parallelism cut the step's responses.
  void complete(format::TrainData& step, const std::string& step_name, bool cut);

  /// What was found in all steps: policy-loss-mismatch, where rows say something else than the
  /// training data, than each other or than their place; policy-loss-unplaced, of rows by file and
  /// of slices by step; policy-loss-missing, of samples by step. A copy of a row that another rank
  /// wrote (of tensor parallelism) is no finding. What is a mismatch is not said to be missing.
  [[nodiscard]] std::vector<PolicyLossFinding> findings();

 private:
  using Row = PolicyLossRow;
  using Rows = std::map<std::string, AlikeRows>;

  /// A sample that got no row, though its old log-probabilities are known.
  struct Wanted {
    uint64_t sample = 0;
    std::string step;
    size_t prompt = 0;
    std::vector<float> old;
  };
  /// Of such a sample its lengths, total and response.
  struct Lengths {
    uint64_t sample = 0;
    std::string step;
    size_t total = 0, response = 0;
  };
  /// A row with fewer values than its response has tokens.
  struct Slice {
    std::string file;
    size_t place = 0, entries = 0;
    std::string old;  // its old log-probabilities, as known_ has them
  };
  /// How many samples of a step with a response got no row: `slices` of those whose lengths a slice
  /// has, `missing` of others.
  struct Without {
    size_t missing = 0, slices = 0;
  };

  /// The rows that fit a sample of a step; the end where none does.
  Rows::iterator fitting(const format::TrainData& step, size_t sample);
  Row take(Rows::iterator from, const format::TrainData& step, size_t sample);
  void want(const format::TrainData& step, size_t sample, const std::string& step_name);
  void mismatch(const Row& row, std::string message, const std::string& where);
  void mismatch(const std::string& file, size_t place, std::string message,
                const std::string& where);
  void compare(const Row& row, const format::TrainData& step, size_t sample,
               const std::string& step_name);
  void judge_mask(const Row& row);
  void settle_copies();
  void compare_copy(const Row& row, const Row& first, const Row* same);
  void settle_wanted();
  [[nodiscard]] bool is_wanted(const Row& row);
  /// Reports rows that have a sample's old log-probabilities, and other lengths; and slices, where
  /// nothing was cut.
  void settle_lengths();
  [[nodiscard]] bool has_other_lengths(const std::string& file, size_t place,
                                       const std::string& old, size_t total, size_t response);

  Rows rows_;
  std::map<std::string, std::vector<Row>> placed_;  // of which others with their key are there
  std::multimap<std::string, Wanted> wanted_;  // by lengths and the sampler's log-probabilities
  std::multimap<std::string, Lengths>
      known_;  // of samples without a row, by their log-probabilities
  std::map<std::pair<size_t, size_t>, std::vector<Slice>> slices_;  // by lengths
  std::set<std::pair<size_t, size_t>> sliced_;  // lengths of samples, of which there are slices
  std::map<std::string, Without> without_;      // by step
  std::vector<PolicyLossFinding> mismatches_;
  std::optional<int64_t> group_size_;  // that a row implies
  bool any_ = false;                   // whether a file was read
  bool placed_any_ = false;            // whether a step was held against them
  bool cut_ = false;                   // whether a response was cut
};

}  // namespace rlreplay::replay
