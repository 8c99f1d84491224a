// What is written for torch.load is read again as the same content.
#include "format/foreign/torch_writer.h"

#include "tests/foreign/support.h"
#include "tests/material.h"

namespace rlreplay::foreign {
namespace {

namespace fs = std::filesystem;

/// Drops what says where a tensor lies, and not what it holds.
void drop(std::string& json, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = json.find(from, at)) != std::string::npos;) {
    json.erase(at, json.find(to, at) - at);
  }
}

std::string content(const TorchFile& file) {
  std::string json = show(file);
  drop(json, ",\"record\":", ",\"location\":");
  drop(json, ",\"offset\":", ",\"hex\":");
  return json;
}

void check_copy(const fs::path& path, const TempFolder& folder) {
  INFO(path.string());
  const TorchFile original(path.string());
  const std::string copy = (folder.path() / "copy.pt").string();
  write_torch_file(copy, original.tree(), original.root());
  const TorchFile again(copy);
  CHECK(content(again) == content(original));
  CHECK(again.archive_root() == "copy");
  CHECK(again.problems().empty());
  const std::string bytes = read_text(copy);
  write_torch_file(copy, again.tree(), again.root());
  CHECK(read_text(copy) == bytes);
}

TEST_CASE("a file of torch.save is written again with the same content") {
  const TempFolder folder;
  size_t count = 0;
  for (const auto& entry : fs::recursive_directory_iterator(RLREPLAY_TEST_DATA)) {
    if (entry.path().extension() != ".pt") continue;
    check_copy(entry.path(), folder);
    ++count;
  }
  CHECK(count >= 4);
}

void check_copies(const fs::path& dumps) {
  const TempFolder folder;
  size_t count = 0;
  for (const auto& entry : fs::recursive_directory_iterator(dumps)) {
    const bool hostile = entry.path().string().find("/hostile/") != std::string::npos;
    if (entry.path().extension() != ".pt" || hostile) continue;
    check_copy(entry.path(), folder);
    ++count;
  }
  CHECK(count >= 90);
}

TEST_CASE("every valid and tricky file is written again with the same content") {
  for (const fs::path& folder : test::material_folders()) check_copies(folder / "dumps");
}

TEST_CASE("integers of every size are written as they are") {
  const TempFolder folder;
  Tree tree;
  std::vector<Value> values;
  for (int shift = 0; shift < 64; ++shift) {
    for (const int64_t near : {-1, 0, 1}) {
      const auto power = static_cast<int64_t>(uint64_t{1} << shift);
      int64_t sum = 0;
      if (!__builtin_add_overflow(power, near, &sum)) values.push_back(Value::of_int(sum));
      if (!__builtin_sub_overflow(near, power, &sum)) values.push_back(Value::of_int(sum));
    }
  }
  for (const char* digits : {"9223372036854775808", "-9223372036854775809", "18446744073709551616",
                             "-18446744073709551616", "-340282366920938463463374607431768211456"}) {
    values.push_back(tree.add_text(Kind::kBigInt, digits));
  }
  const Value root = tree.add_sequence(Kind::kList, values);
  const std::string path = (folder.path() / "integers.pt").string();
  write_torch_file(path, tree, root);
  const TorchFile file(path);
  std::string expected;
  write_canonical_json(tree, root, [&](std::string_view piece) { expected += piece; });
  CHECK(show(file) == expected);
}

TEST_CASE("a shared part is written once") {
  const TempFolder folder;
  Tree tree;
  const std::vector<Value> numbers(5000, Value::of_int(1'000'000));
  const Value list = tree.add_sequence(Kind::kList, numbers);
  const std::vector<Value> pair = {list, list};
  const Value twice = tree.add_sequence(Kind::kList, pair);
  const Value once = tree.add_sequence(Kind::kList, std::span(pair).first(1));
  const std::string path = (folder.path() / "shared.pt").string();
  write_torch_file(path, tree, once);
  const auto alone = fs::file_size(path);
  write_torch_file(path, tree, twice);
  CHECK(fs::file_size(path) < alone + 100);
  const TorchFile file(path);
  const Sequence& read = file.tree().sequence(file.root());
  CHECK(read[0].index == read[1].index);
}

}  // namespace
}  // namespace rlreplay::foreign
