#pragma once

#include <string>
#include <vector>

namespace rlreplay::replay {

/// A value of a YAML file and the keys that lead to it. Each is YAML again, on one line, which
/// every reader takes for what stands in the file: plain where the file has it plain, so that no
/// reading of `no`, `1e-3` or `010` is chosen here; quoted where the file has it quoted, unless
/// every reader takes the plain text for that text, too.
struct YamlLeaf {
  std::vector<std::string> keys;
  std::string text;
};

/// The values of a file that is one mapping, nested or not; a list or an empty mapping is one
/// value. Errors: as read_file; kCorrupt, kUnsupported, naming path:line.
[[nodiscard]] std::vector<YamlLeaf> read_yaml_leaves(const std::string& path);

}  // namespace rlreplay::replay
