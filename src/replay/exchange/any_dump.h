#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "format/foreign/context_slices.h"
#include "format/foreign/shard_group.h"
#include "format/foreign/torch_file.h"
#include "format/foreign/tree.h"
#include "format/foreign/tree_check.h"
#include "src/base/error.h"
#include "src/base/temporary_folder.h"
#include "src/replay/record/recorded_run.h"

namespace rlreplay::replay {

/// Whether the folder is a dump of ours, finished or not.
[[nodiscard]] bool is_native_dump(const std::string& path);

/// Sees that a path is no single file of a native dump. Errors: kUsage for one.
void check_no_part(const std::string& path);

/// Refuses files of other programs where a verb takes native dumps alone. Errors: kUsage, with the
/// command that imports them.
void check_imported(const std::string& path);

/// A dump of ours, or files of slime, Miles, Relax or JSON lines, which are imported into a folder
/// that goes away with the object. Nothing that it says names that folder.
class AnyDump {
 public:
  /// Opens a dump, or imports files. `steps`: the `--steps` that are looked at; empty: all.
  /// Errors: as DumpReader::open and import_dump, naming `path` or a file below it; kUsage for
  /// steps that it has not.
  explicit AnyDump(const std::string& path, const std::string& steps = {});
  AnyDump(const AnyDump&) = delete;
  AnyDump& operator=(const AnyDump&) = delete;

  /// The path as the user named it, of a dump or of foreign files.
  const std::string& path() const { return path_; }
  const RecordedRun& run() const { return *run_; }
  const format::DumpReader& reader() const { return run_->dump(); }
  /// Whether it was imported for this object alone.
  [[nodiscard]] bool is_temporary() const { return temporary_.has_value(); }

  /// The error with a path that the user knows in place of a unit's: below the dump's folder, or
  /// that of the foreign file from which the unit was made.
  Error named(const Error& error) const;
  /// The rank whose file of training data holds a sample, or the token of it, of a column that
  /// context parallelism cuts; nothing where none or several do.
  [[nodiscard]] std::optional<int64_t> rank_of(int64_t rollout, uint64_t sample,
                                               std::optional<uint64_t> token) const;
  /// The foreign file of training data that a sample, or the token of it, is of, by its name in its
  /// run, and the rank that trains on it: "train_data/0_1.pt (rank 1)". Of copies it is the one
  /// that an import takes. Empty where the dump keeps none.
  std::string shard_of(int64_t rollout, uint64_t sample, std::optional<uint64_t> token) const;
  /// The foreign file that a place of a rollout or a step is of ("train/0-0"), and, of a step, of
  /// those that hold the sample the first and their number; empty where none is known.
  std::string file_of(const std::string& place, std::optional<uint64_t> sample) const;
  /// Whether the unit that an error is about can be read; of no unit, it can.
  [[nodiscard]] bool reads(const Error& error) const;

 private:
  /// A file of training data, the samples that it lists, and the rank that trains on each.
  struct Shard {
    std::string path;  // where it was imported for this object
    std::string name;  // in its run
    std::map<uint64_t, std::optional<int64_t>> samples;
    bool distinct = true;  // whether it lists each once
    bool in_run = false;   // lies in train_data/: outside of it no rank is taken
    bool whole = false;    // of all ranks
    size_t place = 0;      // among the files of its samples, the one that an import takes first
    /// Where files of a rank are slices: of each sample, the tokens that the file holds.
    std::map<uint64_t, std::array<foreign::ResponseRange, 2>> slices;

    /// Adds the samples of the file.
    void list(const foreign::Tree& tree, foreign::Value root);
    /// Adds which slices the file of a rank has, and its place among those of the same samples.
    void cut(const foreign::ShardGroup& group, size_t at);
    /// Whether the file holds the sample, or the token of a column that is cut.
    [[nodiscard]] bool holds(uint64_t sample, std::optional<uint64_t> token) const;
  };
  /// Says of the files of one rollout's ranks how they are cut, where they go together.
  static void cut_shards(const std::vector<foreign::TorchFile>& files, std::vector<Shard*> of);
  /// The files of a rollout's training data that can be read, each parsed once.
  const std::vector<Shard>& shards(int64_t rollout) const;
  [[nodiscard]] const format::UnitRecord* find_unit(const Error& error) const;

  void import_files();
  void open(const std::string& folder);

  std::string path_;
  std::optional<TemporaryFolder> temporary_;    // of a foreign one
  std::map<std::string, std::string> sources_;  // its units, and the files that they are of
  mutable std::map<int64_t, std::vector<Shard>> shards_;  // by rollout, once they were asked for
  std::unique_ptr<RecordedRun> run_;
};

/// What `work` gives of an opened dump, or of some steps of it; its errors are `named`.
template <class Work>
[[nodiscard]] auto with_dump(const std::string& path, const Work& work,
                             const std::string& steps = {}) {
  const AnyDump dump(path, steps);
  try {
    return work(dump);
  } catch (const Error& error) {
    throw dump.named(error);
  }
}

}  // namespace rlreplay::replay
