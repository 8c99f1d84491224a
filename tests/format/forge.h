#pragma once

#include <set>
#include <string>
#include <vector>

#include "format/rule.h"
#include "tests/format/support.h"

/// Dumps that break chosen rules and no other, with every hash above the breach made to fit again.
namespace rlreplay::format::test {

/// How what a unit says of the parts that a rank holds breaks kMeaning.
enum class Cut {
  kOldShard,        // 0.1's way: beyond its tensor
  kBeyond,          // a box beyond its tensor
  kElements,        // boxes of another number of elements than the dataset has
  kNumbers,         // not three for each dimension
  kBoxesAlone,      // without `tensors`
  kTensorsAlone,    // without `boxes`
  kTensorName,      // no path below the group
  kTable,           // a box of a dataset of the tables
  kCoordinates,     // a rank of fewer than it is
  kCoordinateType,  // of another dtype
  kSlicesBeyond,    // beyond the sample
  kSliceTokens,     // another number of tokens than `offsets` say
  kSlicesAlone,     // without `lengths`
  kGap,             // an element in no part
  kContradiction,   // an element that two parts say differently
};
inline constexpr Cut kLastCut = Cut::kContradiction;

/// Whether a unit of its own breaks it, which is read before the one that breaks other rules.
inline bool is_of_slices(Cut cut) {
  return cut == Cut::kSlicesBeyond || cut == Cut::kSliceTokens || cut == Cut::kSlicesAlone;
}

class Forge {
 public:
  explicit Forge(std::set<Rule> broken, Cut cut = Cut::kOldShard)
      : broken_(std::move(broken)), cut_(cut) {}

  /// A sealed dump of three units. What can be broken: every rule but kChain and kWriter.
  void write_sealed(const std::string& path) const;
  /// An unfinished one, judged by its journal. Broken are rules of records, from kRecordSyntax on.
  void write_unfinished(const std::string& path) const;

 private:
  struct Unit {
    UnitRecord record;
    std::string bytes;
  };

  bool breaks(Rule rule) const { return broken_.contains(rule); }
  Unit sound_unit(const std::string& path, const std::string& group) const;
  Unit broken_unit() const;
  /// Training data of one rank, which holds two slices of a sample of eight tokens.
  Unit sliced_unit() const;
  bool cuts(Cut cut) const { return breaks(Rule::kMeaning) && cut_ == cut; }
  /// What a tensor's dataset says of the part that it is.
  h5::Attributes part_of(uint64_t elements) const;
  std::vector<Unit> units() const;
  void put_unit(const std::string& path, const Unit& unit) const;
  std::string header(const std::string& text) const;
  std::string index(const std::vector<Unit>& units) const;
  std::string manifest(const std::vector<Unit>& units, const std::string& journal,
                       const std::string& index) const;
  std::string record(std::string body) const;

  std::set<Rule> broken_;
  Cut cut_;
};

}  // namespace rlreplay::format::test
