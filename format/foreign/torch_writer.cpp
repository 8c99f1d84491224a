#include "format/foreign/torch_writer.h"

#include <algorithm>
#include <vector>

#include "format/foreign/pickle_writer.h"
#include "format/foreign/tensor_content.h"
#include "format/foreign/zip_writer.h"

namespace rlreplay::foreign {
namespace {

/// torch names the folder inside an archive after the file.
std::string stem(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string name = slash == path.npos ? path : path.substr(slash + 1);
  return name.substr(0, name.rfind('.'));
}

}  // namespace

void write_torch_file(const std::string& path, const Tree& tree, Value root) {
  std::string pickle;
  const Replacements none;
  PickleWriter writer(
      tree, [&](Bytes piece) { pickle += as_text(piece); }, none);
  writer.write(root);
  ZipWriter archive(path);
  const std::string folder = stem(path) + "/";
  archive.add(folder + "data.pkl", as_bytes(pickle));
  archive.add(folder + "byteorder", as_bytes("little"));
  std::vector<uint8_t> scratch;
  for (size_t i = 0; i < writer.records().size(); ++i) {
    const Tensor& tensor = tree.tensor(writer.records()[i]);
    archive.add(folder + "data/" + std::to_string(i), contiguous_content(tree, tensor, scratch));
  }
  archive.add(folder + "version", as_bytes("3\n"));
  archive.commit();
}

}  // namespace rlreplay::foreign
