#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "format/foreign/canonical_json.h"
#include "format/foreign/torch_file.h"
#include "format/foreign/zlib_codec.h"
#include "tests/temporary_folder.h"

namespace rlreplay::foreign {

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file.good());
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A temporary folder for files of given bytes.
class TempFolder : public test::TemporaryFolder {
 public:
  /// Writes a file into the folder; its path.
  std::string write(const std::string& name, std::string_view bytes) const {
    const std::string path = *this / name;
    std::ofstream file(path, std::ios::binary);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    REQUIRE(file.good());
    return path;
  }
};

template <class T>
std::string little(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

/// Overwrites bytes at `at`.
template <class T>
void patch(std::string& bytes, size_t at, T value) {
  REQUIRE(at + sizeof(T) <= bytes.size());
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

struct TestMember {
  std::string name;
  std::string content;
  std::string stored = {};  // where it differs from the content
  uint16_t method = 0;
};

/// A plain zip archive of stored members.
inline std::string make_zip(const std::vector<TestMember>& members, std::string_view comment = {}) {
  std::string out;
  std::string directory;
  for (const TestMember& member : members) {
    const std::string& stored = member.stored.empty() ? member.content : member.stored;
    const std::string fields =
        little<uint16_t>(0) + little(member.method) + little<uint32_t>(0) +
        little(crc32(as_bytes(member.content))) + little(static_cast<uint32_t>(stored.size())) +
        little(static_cast<uint32_t>(member.content.size())) +
        little(static_cast<uint16_t>(member.name.size())) + little<uint16_t>(0);
    directory += "PK\1\2" + little<uint32_t>(20 | 20 << 16) + fields + std::string(10, '\0') +
                 little(static_cast<uint32_t>(out.size())) + member.name;
    out += "PK\3\4" + little<uint16_t>(20) + fields + member.name + stored;
  }
  const auto count = static_cast<uint16_t>(members.size());
  std::string end = "PK\5\6" + little<uint32_t>(0) + little(count) + little(count) +
                    little(static_cast<uint32_t>(directory.size())) +
                    little(static_cast<uint32_t>(out.size())) +
                    little(static_cast<uint16_t>(comment.size()));
  return out.append(directory).append(end).append(comment);
}

/// A file as torch.save lays it out, around a pickle.
inline std::string make_torch_zip(const std::string& pickle,
                                  std::vector<std::pair<std::string, std::string>> storages = {}) {
  std::vector<TestMember> members = {{"x/data.pkl", pickle}};
  for (auto& [key, bytes] : storages) members.push_back({"x/data/" + key, bytes});
  members.push_back({"x/version", "3\n"});
  return make_zip(members);
}

/// The content of a file in canonical JSON.
inline std::string show(const TorchFile& file) {
  std::string text;
  write_canonical_json(file.tree(), file.root(), [&](std::string_view piece) { text += piece; });
  return text;
}

/// Checks that `body` throws an error of this kind whose message holds `fragment`.
inline void expect_error(ErrorCode code, std::string_view fragment,
                         const std::function<void()>& body) {
  try {
    body();
    FAIL("no error, expected: " << fragment);
  } catch (const Error& error) {
    INFO(error.what() << " (" << error.where() << ")");
    CHECK(to_string(error.code()) == to_string(code));
    CHECK(std::string_view(error.what()).find(fragment) != std::string_view::npos);
  }
}

/// Whether everything is to be tried: RLREPLAY_FULL=1.
inline bool full_run() {
  const char* value = std::getenv("RLREPLAY_FULL");
  return value != nullptr && std::string_view(value) == "1";
}

}  // namespace rlreplay::foreign
