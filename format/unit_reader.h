#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/dataset.h"
#include "format/hdf5_file.h"
#include "format/unit.h"
#include "src/base/buffer.h"
#include "src/base/thread_pool.h"

namespace rlreplay::format {

class CheckedImage;

/// A unit whose stored bytes have been checked. A copy is another handle of the same one.
class UnitReader {
 public:
  /// Takes the bytes of a unit file that have the record's size and hash, checks the container,
  /// every attribute and the hash of the content. Errors: FormatError, up to kContent.
  [[nodiscard]] static UnitReader open(CheckedImage image, const UnitRecord& record,
                                       ThreadPool& pool, const h5::Limits& limits = {},
                                       bool frame_checksums = true);
  /// Checks size and hash before anything else looks at the bytes. Errors: from kUnitSize on.
  [[nodiscard]] static UnitReader open(Buffer<std::byte> image, const UnitRecord& record,
                                       ThreadPool& pool, const h5::Limits& limits = {},
                                       bool frame_checksums = true);

  const UnitRecord& record() const;
  /// All datasets, sorted by path.
  const std::vector<StoredDataset>& datasets() const;
  /// The datasets of one group, sorted by path; none where the unit does not hold it.
  std::span<const StoredDataset> datasets_of(std::string_view group) const;
  /// The dataset of a path; null where there is none.
  [[nodiscard]] const StoredDataset* find(std::string_view path) const;

  /// Decodes a whole dataset into `out`, of exactly its size, and checks its hash. `base` holds the
  /// decoded bytes of the base where a difference is stored, and may be `out` itself.
  /// Errors: FormatError kParent, kFrame or kDatasetHash.
  void read(const StoredDataset& dataset, std::span<std::byte> out,
            std::span<const std::byte> base = {}) const;

  /// Decodes and checks several datasets at once: their chunks keep all threads busy together.
  /// Errors: as of one dataset.
  struct Read {
    const StoredDataset* dataset = nullptr;
    std::span<std::byte> out;
    std::span<const std::byte> base = {};
  };
  void read(std::span<const Read> reads) const;

  /// Decodes a dataset piece by piece and in order, however large it is, and checks its hash in the
  /// end: until then `use` sees bytes that nobody has checked. Not for differences.
  /// Errors: FormatError kFrame or kDatasetHash.
  using Use = std::function<void(std::span<const std::byte> piece)>;
  void stream(const StoredDataset& dataset, const Use& use = {}) const;

 private:
  struct State;
  explicit UnitReader(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;  // copies have it in common
};

}  // namespace rlreplay::format
