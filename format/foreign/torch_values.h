#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>

#include "format/foreign/tree.h"

namespace rlreplay::foreign {

/// The raw records of a torch archive, by key. Nothing where there is no such record.
class RecordSource {
 public:
  virtual ~RecordSource() = default;
  [[nodiscard]] virtual std::optional<Bytes> record(std::string_view key) const = 0;

  /// The value that a pickle of this project's own left out (PickleWriter's replacements): a list
  /// of "integers" or "floats", or a "text". Nothing where there is none.
  [[nodiscard]] virtual std::optional<Value> value(std::string_view what, std::string_view place,
                                                   Tree& tree) const {
    static_cast<void>(what), static_cast<void>(place), static_cast<void>(tree);
    return std::nullopt;
  }
};

/// Turns the persistent ids and rebuild calls of torch into storages and tensors.
class TorchValues {
 public:
  TorchValues(Tree& tree, const RecordSource& records) : tree_(tree), records_(records) {}

  /// What a persistent id names: a storage, or a value that was left out. Errors: as storage.
  Value persistent(Value id);

  /// The storage of a persistent id ("storage", class, key, location, count).
  /// Errors: kCorrupt where the id or its record is wrong, kUnsupported for other kinds.
  Value storage(Value id);

  /// torch._utils._rebuild_tensor_v2 (version 2) or _rebuild_tensor_v3 (3).
  /// Errors: kCorrupt where the window leaves the storage or an argument has the wrong type.
  Value tensor(std::span<const Value> args, int version);

  /// torch._utils._rebuild_parameter.
  Value parameter(std::span<const Value> args);

 private:
  Tree& tree_;
  const RecordSource& records_;
  std::unordered_map<std::string_view, uint32_t> known_;  // key to storage
};

}  // namespace rlreplay::foreign
