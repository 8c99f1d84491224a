#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "format/dump_reader.h"
#include "format/rollout_data.h"
#include "format/train_data.h"
#include "src/base/budget.h"
#include "src/base/json_lines.h"
#include "src/replay/exchange/selection.h"

namespace rlreplay::replay {

/// Takes the next piece of a text.
using TextSink = std::function<void(const std::string&)>;

/// Writes a dump's rollouts and training data as lines of JSON, one sample a line:
///
///     {"schema":"rlreplay.sample/1","rollout_id":0,"sample_id":7,"prompt_length":3,"tokens":[...],
///      "group_id":1,"trajectory_id":5,"log_probs":[...],"loss_mask":[...],
///      "removed":false,"reward":1.0,
///      "reward_components":{"exact":1.0},"finish":"stop",
///      "versions":[4],"version_starts":[3],
///      "calls":[{"first":3,"length":6,"finish":"stop","truncated":false,"version":4,"seed":1,
///      "temperature":1.0}],"roles":[0,0,0,1,1,1,2,1,1],"prompt":"...","response":"...","label":"...",
///      "experts":{"layers":2,"slots":1,"ids":[...],"layer_ids":[0,3],"gates":[...],"recorded":[1,0]},"nucleus":{"sizes":[...],"ids":[...]},
///      "other_inputs":true}
///     {"schema":"rlreplay.train/1","rollout_id":0,"step_id":0,"rank":0,"sample_id":7,
///      "length":9,"tokens":[...],"prompt_length":3,"micro_batch":0,"loss_mask":[...],"reward":0.5,
///      "trajectory_id":5,"trajectory_tokens":12,
///      "token_weights":[...],"log_probs":[...],"advantages":[...]}
///     {"schema":"rlreplay.step/1","rollout_id":0,"step_id":0,"rank":0,"scalars":{"loss":0.25}}
///
/// Lists of the response begin with its first token. What was not recorded is left out. Numbers are
/// the shortest decimals that read back as the same bits; those that JSON has no digits for are
/// texts of their bits in hex ("7fc00000"). Floats are binary32, but binary64 in the columns that
/// `wide` names. Returns what of rollouts and steps an import of the lines would not give back: a
/// line each, with the reason.
[[nodiscard]] std::vector<std::string> export_jsonl(const format::DumpReader& dump,
                                                    const std::optional<ChosenSamples>& chosen,
                                                    const TextSink& sink);

/// The lines as data again, a rollout or a step of a rank at a time: never more than the lines of
/// one are in memory, in whatever order the file has them. The file is read twice.
class JsonlFile {
 public:
  /// Sees what the file holds. Errors: kCorrupt with path:line, the sentence naming the key.
  explicit JsonlFile(const std::string& path);

  /// Rollouts by id, and steps by unit path, `train/0-0/rank0.h5`.
  std::vector<int64_t> rollouts() const;
  std::vector<std::string> steps() const;

  /// The data of a rollout, or of a rank's step, that rollouts() or steps() names.
  /// Errors: as the constructor; kLimit where lines of a few bytes stand for columns of many zeros.
  std::shared_ptr<format::RolloutData> rollout(int64_t id);  // its datasets own it, too
  std::shared_ptr<format::TrainData> step(const std::string& unit);

  /// The samples of the lines read so far that were made from more than their tokens, by rollout.
  const std::map<int64_t, std::set<uint64_t>>& with_inputs() const { return with_inputs_; }

 private:
  JsonLines lines_;
  Budget budget_;  // of the file
  std::map<int64_t, std::set<uint64_t>> with_inputs_;
  std::map<int64_t, std::vector<JsonLines::Place>> rollouts_;
  std::map<std::string, std::vector<JsonLines::Place>> trains_;
  std::map<std::string, format::NamedColumns> scalars_;
};

}  // namespace rlreplay::replay
