#pragma once

#include <map>
#include <string>

namespace rlreplay::measure {

/// What is built and run: a revision, settings, or both.
struct Candidate {
  std::string revision = {};  // the hash of a commit; empty: none
  std::string content = {};   // by which equal files are known: of equal content one run is enough
  std::map<std::string, std::string> settings = {};  // by their keys
  std::string declared = {};  // equal where all is that a run is said to depend on; empty: content

  friend bool operator==(const Candidate&, const Candidate&) = default;
};

}  // namespace rlreplay::measure
