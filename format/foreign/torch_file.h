#pragma once

#include <memory>
#include <string>
#include <vector>

#include "format/foreign/mapped_file.h"
#include "format/foreign/tree.h"
#include "format/foreign/tree_check.h"
#include "format/foreign/zip_archive.h"

namespace rlreplay::foreign {

/// A file that torch.save wrote, read as data. Tensors are views into the mapped file.
/// Source: PyTorch, torch/serialization.py and caffe2/serialize/inline_container.h.
class TorchFile {
 public:
  /// Reads and checks the whole file; runs nothing, creates nothing.
  /// Errors: kLimit where it would cost more than its budget, kUnsafe where the file asks for code,
  /// kCorrupt where it contradicts itself, kUnsupported where it is something else; `where` is the
  /// path, the member and the byte.
  explicit TorchFile(const std::string& path);
  /// The content of such a file without the file: there is nothing to release or to be changed.
  TorchFile(Tree tree, Value root, std::string path);

  const std::string& path() const { return path_; }
  /// Its path without folders.
  std::string name() const;
  const Tree& tree() const { return tree_; }
  Tree& tree() { return tree_; }
  Value root() const { return root_; }

  /// The folder inside the archive, which torch takes from the file's first name.
  const std::string& archive_root() const { return archive_root_; }

  /// Lets go of the pages of the file that were read; they are read again where they are needed.
  void release() const {
    if (file_) file_->release(file_->bytes());
  }

  /// Called when the last of the content was used. Errors: kCorrupt where the file was changed
  /// since it was opened.
  void check_unchanged() const {
    if (file_) file_->check_unchanged();
  }

  /// What a reader must be told although the file can be read.
  const std::vector<Problem>& problems() const { return problems_; }

 private:
  void read();
  void check_records();
  void read_pickle(Bytes pickle);

  std::string path_;
  std::unique_ptr<MappedFile> file_;
  std::unique_ptr<Budget> budget_;  // of the reading
  std::unique_ptr<ZipArchive> archive_;
  std::string archive_root_;
  Tree tree_;
  Value root_;
  std::vector<Problem> problems_;
};

}  // namespace rlreplay::foreign
