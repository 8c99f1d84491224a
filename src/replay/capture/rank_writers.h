#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "format/background_writer.h"

namespace rlreplay::replay {

/// The writers of a dump's ranks, each with a journal and a thread of its own. Of a dump that is
/// gone on with, one takes the place of all.
class RankWriters {
 public:
  /// `first` is rank 0's; the others join its dump under their numbers.
  /// Errors: those of DumpWriter::join.
  RankWriters(format::DumpWriter first, const std::string& path, int ranks);
  /// In the place of all.
  explicit RankWriters(format::DumpWriter all);

  /// As BackgroundWriter::append.
  void append(int rank, std::string path, std::vector<format::Dataset> datasets);

  /// As BackgroundWriter::drain: the units of each writer, in their order.
  [[nodiscard]] std::optional<std::vector<std::vector<format::UnitRecord>>> drain();

  /// Waits until everything is stored, ends all writers and seals the dump.
  Hash seal(const format::SealOptions& options);

 private:
  std::vector<std::unique_ptr<format::BackgroundWriter>> writers_;
};

}  // namespace rlreplay::replay
