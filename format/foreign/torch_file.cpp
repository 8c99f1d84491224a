#include "format/foreign/torch_file.h"

#include <filesystem>
#include <optional>

#include "format/foreign/pickle_machine.h"
#include "format/foreign/text.h"
#include "src/base/number_text.h"

namespace rlreplay::foreign {
namespace {

constexpr int kNewestVersion = 10;  // that torch reads

[[noreturn]] void not_a_torch_file(const std::string& message, const std::string& where = {}) {
  throw Error(ErrorCode::kUnsupported, message, where);
}

bool begins_with(Bytes bytes, std::string_view magic, size_t at = 0) {
  return bytes.size() >= at + magic.size() && as_text(bytes.subspan(at, magic.size())) == magic;
}

/// Names what is not a zip archive.
void refuse_other_formats(Bytes file) {
  using namespace std::string_view_literals;
  if (file.empty()) corrupt("the file is empty");
  if (begins_with(file, "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19"sv)) {
    not_a_torch_file(
        "a file of torch before 1.6 (pickles in a row); save it again with a newer torch");
  }
  if (file[0] == 0x80 && file.size() > 1 && file[1] <= 5) {
    not_a_torch_file("a bare pickle, not a file of torch.save");
  }
  if (begins_with(file, "\x1f\x8b"sv)) not_a_torch_file("a gzip file; unpack it first");
  if (begins_with(file, "ustar"sv, 257))
    not_a_torch_file("a tar archive, not a file of torch.save");
  if (begins_with(file, "\x89HDF\r\n\x1a\n"sv)) not_a_torch_file("an HDF5 file");
  if (begins_with(file, "{"sv, 8) && load_as<uint64_t>(file.data()) <= file.size() - 8) {
    not_a_torch_file("a safetensors file, not a file of torch.save");
  }
}

class ArchiveRecords : public RecordSource {
 public:
  ArchiveRecords(const ZipArchive& archive, const std::string& root)
      : archive_(archive), prefix_(root + "/data/") {}

  std::optional<Bytes> record(std::string_view key) const override {
    const ZipArchive::Member* member = archive_.find(prefix_ + std::string(key));
    if (member == nullptr) return std::nullopt;
    return member->content;
  }

 private:
  const ZipArchive& archive_;
  std::string prefix_;
};

/// The one folder that all members lie in.
std::string find_root(const ZipArchive& archive) {
  if (archive.members().empty()) corrupt("the archive has no members");
  const std::string_view first = archive.members()[0].name;
  const std::string_view root = first.substr(0, first.find('/'));
  for (const ZipArchive::Member& member : archive.members()) {
    if (!member.name.starts_with(root) || member.name.substr(root.size(), 1) != "/") {
      corrupt("members lie in several folders: " + printable(root) + " and that of " +
              printable(member.name));
    }
  }
  return std::string(root);
}

}  // namespace

TorchFile::TorchFile(const std::string& path) : path_(path) {
  try {
    file_ = std::make_unique<MappedFile>(path);
    read();
    file_->check_unchanged();
  } catch (const Error& error) {
    if (file_) file_->check_unchanged();  // what is wrong may be no fault of its writer
    const bool placed = error.where().empty() || error.where() == path;
    throw error.at(placed ? path : path + ": " + error.where());
  }
}

TorchFile::TorchFile(Tree tree, Value root, std::string path)
    : path_(std::move(path)), tree_(std::move(tree)), root_(root) {}

std::string TorchFile::name() const { return std::filesystem::path(path_).filename().string(); }

void TorchFile::read() {
  refuse_other_formats(file_->bytes());
  const auto release = [this](Bytes read) { file_->release(read); };
  budget_ = std::make_unique<Budget>(file_->bytes().size());
  tree_ = Tree(budget_.get());
  archive_ = std::make_unique<ZipArchive>(file_->bytes(), budget_.get(), release);
  archive_root_ = find_root(*archive_);
  check_records();
  const ZipArchive::Member* pickle = archive_->find(archive_root_ + "/data.pkl");
  if (pickle == nullptr) corrupt("the archive has no data.pkl");
  try {
    read_pickle(pickle->content);
  } catch (const Error& error) {
    const std::string where = error.where().empty() ? "" : ", " + error.where();
    throw error.at("data.pkl" + where);
  }
}

void TorchFile::check_records() {
  for (const ZipArchive::Member& member : archive_->members()) {
    const std::string_view name = member.name.substr(archive_root_.size() + 1);
    if (name.starts_with("code/") || name == "constants.pkl") {
      not_a_torch_file("a TorchScript archive holds programs, not a dump");
    }
  }
  if (const auto* order = archive_->find(archive_root_ + "/byteorder")) {
    if (as_text(order->content) == "big") not_a_torch_file("the file was written big-endian");
    if (as_text(order->content) != "little") corrupt("the record 'byteorder' is neither word");
  }
  const auto* record = archive_->find(archive_root_ + "/version");
  if (record == nullptr) corrupt("the archive has no record 'version'");
  std::string_view text = as_text(record->content);
  if (text.ends_with('\n')) text.remove_suffix(1);
  const auto version = parse_number<int>(text);
  if (!version || *version < 1) corrupt("the record 'version' is not a number");
  if (*version > kNewestVersion) {
    not_a_torch_file("archive version " + std::to_string(*version) + "; up to " +
                     std::to_string(kNewestVersion) + " is supported");
  }
}

void TorchFile::read_pickle(Bytes pickle) {
  const ArchiveRecords records(*archive_, archive_root_);
  size_t end = 0;
  {
    PickleMachine machine(pickle, tree_, records, [this](Bytes read) { file_->release(read); });
    root_ = machine.run();
    end = machine.end();
  }
  if (end != pickle.size()) {
    problems_.push_back(
        {"trailing-bytes",
         std::to_string(pickle.size() - end) + " bytes follow the pickle's end and were not read",
         "data.pkl, byte " + std::to_string(end)});
  }
  const std::vector<Problem> found = check_tree(tree_, root_, file_->bytes().size());
  problems_.insert(problems_.end(), found.begin(), found.end());
  tree_.release_budget();
}

}  // namespace rlreplay::foreign
