#pragma once

#include <functional>
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
  /// Takes the units of all ranks into one writer, as where a dump is gone on with.
  explicit RankWriters(format::DumpWriter all);

  /// Hands a unit to the writer of its rank, as BackgroundWriter::append.
  void append(int rank, std::string path, std::vector<format::Dataset> datasets);

  /// Calls `act` once everything handed over so far is stored, as BackgroundWriter::when_stored.
  void when_stored(std::function<void()> act);

  /// Drains all writers, as BackgroundWriter::drain, and returns the units of each, in their order.
  [[nodiscard]] std::optional<std::vector<std::vector<format::UnitRecord>>> drain();

  /// Waits until everything is stored, ends all writers and seals the dump.
  Hash seal(const format::SealOptions& options);

 private:
  std::vector<std::unique_ptr<format::BackgroundWriter>> writers_;
};

}  // namespace rlreplay::replay
