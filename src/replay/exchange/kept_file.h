#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "format/dump_reader.h"
#include "format/foreign/pickle_writer.h"
#include "format/foreign/torch_file.h"
#include "format/foreign/tree.h"
#include "src/replay/exchange/cell.h"

namespace rlreplay::replay {

/// Where a foreign file is kept: `x-slime/train_data/0_1.h5` for `train_data/0_1.pt`.
[[nodiscard]] std::string kept_path(const std::string& vendor, const std::string& file);

/// Whether a unit keeps a file of an evaluation's samples, which are its own.
[[nodiscard]] bool keeps_evaluation(std::string_view unit);

/// The name of the file that a unit keeps. Errors: FormatError where it does not say it.
[[nodiscard]] std::string kept_name(const format::UnitReader& unit);

/// Sees that the name of a kept file leads to its unit, lies below a folder, and has characters
/// alone that every screen shows as they are. Errors: kCorrupt; as of kept_name.
void check_kept_name(const format::UnitReader& unit);

/// What a unit must hold so that a foreign file can be written again: its pickle, without what
/// `replacements` says lies elsewhere in the dump, and the content of its other tensors.
/// `name` is that under which it is written again.
[[nodiscard]] std::vector<format::Dataset> keep_file(const foreign::TorchFile& file,
                                                     const foreign::Replacements& replacements,
                                                     const std::string& group,
                                                     const std::string& name);

/// What the units of a dump hold, decoded.
[[nodiscard]] uint64_t content_bytes(const format::DumpReader& dump);

/// Reads what the places of kept files refer to.
class NativeReader {
 public:
  explicit NativeReader(const format::DumpReader& dump);

  /// The groups of training data by rollout.
  const std::map<int64_t, std::set<std::string>>& trains() const { return trains_; }

  /// The data of the rollout that the unit's group names, and of the unit itself. Files of one
  /// rollout follow one another: the last one's is kept.
  /// Errors: kLimit for more than a dump may hold.
  const NativeData& of(const format::UnitReader& unit);

 private:
  NativeData read(int64_t rollout) const;

  const format::DumpReader& dump_;
  std::map<int64_t, std::set<std::string>> trains_;
  NativeData data_;
  std::optional<int64_t> rollout_;
};

/// A foreign file put together again.
class RestoredFile {
 public:
  /// `native` must hold all that the file's places refer to; only needed while this is made.
  /// `limit`: the bytes that a dump may make of a file, its content_bytes.
  /// Errors: kCorrupt where the unit contradicts itself or the rest of the dump.
  RestoredFile(const format::DumpReader& dump, const format::UnitReader& unit,
               const NativeData& native, uint64_t limit);
  ~RestoredFile();
  RestoredFile(RestoredFile&&) noexcept;

  const std::string& name() const { return name_; }
  foreign::Tree& tree();
  foreign::Value root() const { return root_; }
  /// The restored file as a reader of files takes it. This outlives it and has no tree any more.
  [[nodiscard]] foreign::TorchFile take_file();

 private:
  struct State;
  std::unique_ptr<State> state_;
  std::string name_;
  foreign::Value root_;
};

}  // namespace rlreplay::replay
