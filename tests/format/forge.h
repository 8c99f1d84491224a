#pragma once

#include <set>
#include <string>
#include <vector>

#include "format/rule.h"
#include "tests/format/support.h"

/// Dumps that break chosen rules and no other, with every hash above the breach made to fit again.
namespace rlreplay::format::test {

class Forge {
 public:
  explicit Forge(std::set<Rule> broken) : broken_(std::move(broken)) {}

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
  std::vector<Unit> units() const;
  void put_unit(const std::string& path, const Unit& unit) const;
  std::string header(const std::string& text) const;
  std::string index(const std::vector<Unit>& units) const;
  std::string manifest(const std::vector<Unit>& units, const std::string& journal,
                       const std::string& index) const;
  std::string record(std::string body) const;

  std::set<Rule> broken_;
};

}  // namespace rlreplay::format::test
