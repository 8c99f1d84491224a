#pragma once

#include <memory>
#include <string>
#include <vector>

#include "format/dump_reader.h"
#include "format/foreign/pickle_writer.h"
#include "format/foreign/torch_file.h"
#include "format/foreign/tree.h"
#include "src/replay/exchange/cell.h"

namespace rlreplay::replay {

/// Where a foreign file is kept: `x-slime/train_data/0_1.h5` for `train_data/0_1.pt`.
std::string kept_path(const std::string& vendor, const std::string& file);

/// What a unit must hold so that a foreign file can be written again: its pickle, without what
/// `replacements` says lies elsewhere in the dump, and the content of its other tensors.
/// `name` is that under which it is written again.
std::vector<format::Dataset> keep_file(const foreign::TorchFile& file,
                                       const foreign::Replacements& replacements,
                                       const std::string& group, const std::string& name);

/// What the units of a dump hold, decoded.
uint64_t content_bytes(const format::DumpReader& dump);

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

 private:
  struct State;
  std::unique_ptr<State> state_;
  std::string name_;
  foreign::Value root_;
};

}  // namespace rlreplay::replay
