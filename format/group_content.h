#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/dataset.h"
#include "format/hdf5_file.h"
#include "format/item_text.h"
#include "format/part_content.h"
#include "src/base/dtype.h"
#include "src/base/hash.h"

/// What a group of a dump says, whatever its storage (SPEC.md section 7).
namespace rlreplay::format {

/// A dataset of a group, without its elements.
struct GroupDataset {
  std::string name;  // below the group
  DType dtype = DType::kU8;
  std::vector<uint64_t> shape;
  h5::Attributes attributes;
};

/// What a unit says of a field.
struct FieldItems {
  /// A dataset that is not of samples, or one of its named numbers.
  struct Whole {
    std::string text;  // its item's line without the key
    Part part;         // the same as the whole of its tensor
  };
  std::vector<Hash> samples;  // an item a sample
  std::vector<Whole> whole;
  std::vector<Part> parts;  // of what others hold the rest of, or may
};

/// What a unit says of a group, by field.
using GroupItems = std::map<std::string, FieldItems, std::less<>>;

/// Takes a unit's datasets of a group, one by one and in any order.
class GroupContent {
 public:
  /// The decoded elements of a dataset of the unit.
  using Read = std::function<std::vector<std::byte>(const GroupDataset& dataset)>;

  /// Called before so many bytes more are held for a dataset; may throw.
  using Hold = std::function<void(std::string_view name, uint64_t bytes)>;

  /// `read` is called for ids, offsets and the like, which say where the samples of the others lie;
  /// `hold` for these, and for the items of all samples, before any is made.
  GroupContent(std::string_view kind, std::vector<GroupDataset> datasets, const Read& read,
               const Hold& hold = {});

  /// `hash`: of `bytes`, where the caller has it.
  void add(std::string_view name, std::span<const std::byte> bytes,
           const std::optional<Hash>& hash = {});

  /// Whether `add_pieces` may take a dataset: not one of samples, names or parts.
  [[nodiscard]] bool is_whole(std::string_view name) const;
  /// A dataset whose elements are not held at once; `hash` is theirs.
  void add_pieces(std::string_view name, const ElementPieces& pieces, const Hash& hash);

  const GroupItems& items() const { return items_; }
  /// Whether it holds parts alone of what the group says: then other units are needed to know it.
  [[nodiscard]] bool is_cut() const;

 private:
  /// Where each sample's elements of a dataset begin; one more than there are samples.
  using Offsets = std::vector<uint64_t>;

  [[nodiscard]] const GroupDataset* find(std::string_view name) const;
  /// Counts `numbers` numbers of each of `samples` samples before they are held.
  void hold(std::string_view name, uint64_t samples, uint64_t numbers) const;
  [[nodiscard]] std::vector<uint64_t> read_numbers(const GroupDataset& dataset, const Read& read);
  [[nodiscard]] std::optional<Offsets> read_offsets(std::string_view name, size_t size,
                                                    const Read& read);
  void find_samples(const Read& read);
  [[nodiscard]] bool find_slices(const Read& read);
  void find_columns(const Read& read);
  [[nodiscard]] std::optional<Offsets> places_of(const GroupDataset& dataset, const Read& read);
  void add_samples(const GroupDataset& dataset, const Offsets& places,
                   std::span<const std::byte> bytes);
  void add_slices(const GroupDataset& dataset, size_t sample);
  void add_boxes(const GroupDataset& dataset);
  void add_named(const GroupDataset& dataset, std::span<const std::byte> bytes);
  void put_sample(const std::string& field, uint64_t id, const GroupDataset& dataset,
                  const std::string& shape, std::span<const std::byte> bytes);
  void put_whole(const std::string& field, const GroupDataset& dataset, const std::string& value);

  std::string kind_;
  std::vector<GroupDataset> datasets_;
  Hold hold_;
  std::vector<uint64_t> ids_;
  Offsets tokens_;
  Offsets slice_offsets_;         // of samples of which it holds parts; none where it holds all
  std::vector<Interval> slices_;  // of their tokens
  std::vector<uint64_t> lengths_;
  bool samples_ = false;                                     // they were found, and are sound
  std::map<std::string, Offsets, std::less<>> places_;       // of columns
  std::map<std::string, std::vector<std::byte>> presences_;  // of columns that some samples lack
  std::set<std::string, std::less<>> structure_;  // what says only where the others' elements lie
  GroupItems items_;
};

/// The hash of each field of a group, of the units that hold it in the order of their ranks;
/// `source` reads what several of them hold parts of.
[[nodiscard]] std::map<std::string, Hash> field_hashes(std::span<const GroupItems> units,
                                                       const PartSource& source);

/// The hash of a group.
[[nodiscard]] Hash hash_of_fields(const std::map<std::string, Hash>& fields);

/// The hash of each group of a unit that is to be stored; none for a unit of another kind, nor of a
/// group of which it holds parts.
[[nodiscard]] std::map<std::string, Hash> group_contents(std::string_view kind,
                                                         std::span<const Dataset> datasets);

/// Whether groups of a unit of this kind are part of a dump's content.
[[nodiscard]] bool has_content(std::string_view kind);

}  // namespace rlreplay::format
