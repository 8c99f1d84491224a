#include "format/foreign/zip_archive.h"
#include "tests/foreign/support.h"

namespace rlreplay::foreign {
namespace {

const std::vector<TestMember> kMembers = {
    {"x/data.pkl", "N."}, {"x/data/0", std::string(64, 'a')}, {"x/version", "3\n"}};

constexpr size_t kLocal = 30;
constexpr size_t kCentral = 46;

/// Where the central directory's entry `i` of make_zip(kMembers) begins.
size_t entry_at(const std::string& zip, size_t i) {
  size_t at = zip.find("PK\1\2");
  for (size_t k = 0; k < i; ++k) at = zip.find("PK\1\2", at + 1);
  return at;
}

size_t end_at(const std::string& zip) { return zip.rfind("PK\5\6"); }

void refused(ErrorCode code, std::string_view fragment, const std::string& zip) {
  expect_error(code, fragment, [&] { ZipArchive archive(as_bytes(zip)); });
}

/// Applies `edit` to a good archive and expects an error.
template <class Edit>
void corrupt(std::string_view fragment, Edit edit, ErrorCode code = ErrorCode::kCorrupt) {
  std::string zip = make_zip(kMembers);
  edit(zip);
  refused(code, fragment, zip);
}

TEST_CASE("a good archive gives its members") {
  const std::string zip = make_zip(kMembers, "made here");
  const ZipArchive archive(as_bytes(zip));
  REQUIRE(archive.members().size() == 3);
  for (const TestMember& member : kMembers) {
    REQUIRE(archive.find(member.name) != nullptr);
    CHECK(as_text(archive.find(member.name)->content) == member.content);
  }
  CHECK(archive.find("x/data/1") == nullptr);
}

TEST_CASE("every prefix of an archive is refused") {
  const std::string zip = make_zip(kMembers);
  for (size_t size = 0; size < zip.size(); ++size) {
    REQUIRE_THROWS_AS(ZipArchive(as_bytes(zip.substr(0, size))), Error);
  }
}

TEST_CASE("end records that lie are refused") {
  corrupt("more than the central", [](auto& z) { patch<uint32_t>(z, end_at(z) + 8, 0x0FFF0FFF); });
  corrupt("holds more than", [](auto& z) { patch<uint32_t>(z, end_at(z) + 8, 0x00020002); });
  corrupt("in two ways", [](auto& z) { patch<uint16_t>(z, end_at(z) + 8, 2); });
  corrupt("does not end at", [](auto& z) { patch<uint32_t>(z, end_at(z) + 12, 0xFFFFFFF0); });
  corrupt("does not end at", [](auto& z) { z.insert(0, "#!/bin/sh\n"); });
  corrupt("promises a zip64", [](auto& z) { patch<uint32_t>(z, end_at(z) + 16, 0xFFFFFFFF); });
  corrupt(
      "several disks", [](auto& z) { patch<uint16_t>(z, end_at(z) + 4, 1); },
      ErrorCode::kUnsupported);
  refused(ErrorCode::kCorrupt, "another end record",
          make_zip(kMembers, "PK\5\6" + std::string(18, '\0') + "tail"));
}

TEST_CASE("a directory and local headers that disagree are refused") {
  corrupt("names another member: found 'x/data/1', expected 'x/data/0'",
          [](auto& z) { z[z.find("x/data/0") + 7] = '1'; });
  corrupt("CRC of the local", [](auto& z) { patch<uint32_t>(z, entry_at(z, 1) + 16, 7); });
  corrupt("size in the local", [](auto& z) { patch<uint32_t>(z, entry_at(z, 1) + 24, 8); });
  corrupt("begins past", [](auto& z) { patch<uint32_t>(z, entry_at(z, 1) + 42, 0x7FFFFFFF); });
  corrupt("at the same byte", [](auto& z) { patch<uint32_t>(z, entry_at(z, 1) + 42, 0); });
  corrupt("reaches past", [](auto& z) { patch<uint32_t>(z, entry_at(z, 1) + 42, 3); });
  corrupt("no local header at byte 0: found 35034b50, expected 04034b50",
          [](auto& z) { z[3] = '5'; });
  corrupt("not the directory's: found flags 0, method 8, expected flags 0, method 0",
          [](auto& z) { patch<uint16_t>(z, 8, 8); });
  corrupt("CRC", [](auto& z) { z[z.find("aaaa")] = 'b'; });
  corrupt("belong to no member", [](auto& z) {
    const size_t cut = entry_at(z, 2);
    z.erase(cut, kCentral + 9);
    patch<uint32_t>(z, end_at(z) + 8, 0x00020002);
    patch<uint32_t>(z, end_at(z) + 12, static_cast<uint32_t>(end_at(z) - z.find("PK\1\2")));
  });
}

TEST_CASE("hostile names are refused") {
  const auto with_name = [](const std::string& name) {
    return make_zip({{"x/data.pkl", "N."}, {name, "y"}});
  };
  refused(ErrorCode::kCorrupt, "leaves its folder", with_name("x/../../evil"));
  refused(ErrorCode::kCorrupt, "absolute", with_name("/evil"));
  refused(ErrorCode::kCorrupt, "backslash", with_name("x\\evil"));
  refused(ErrorCode::kCorrupt, "NUL", with_name(std::string("x/a\0b", 5)));
  refused(ErrorCode::kCorrupt, "UTF-8", with_name("x/\xff"));
  refused(ErrorCode::kCorrupt, "empty part", with_name("x//y"));
  refused(ErrorCode::kCorrupt, "two members of this name", with_name("x/data.pkl"));
  refused(ErrorCode::kCorrupt, "no name", with_name(""));
}

TEST_CASE("compression is bounded, other methods are refused by number") {
  std::vector<TestMember> members = kMembers;
  members[1].method = 12;
  refused(ErrorCode::kUnsupported, "method 12", make_zip(members));
  members[1].method = 8;
  refused(ErrorCode::kCorrupt, "broken", make_zip(members));
  members[1].stored = "\x4b\x4c\x24\x0e\x00\x00";  // 64 times 'a', but cut short by a bad tail
  refused(ErrorCode::kCorrupt, "deflated member", make_zip(members));
  std::string zip = make_zip(members);
  patch<uint32_t>(zip, entry_at(zip, 1) + 24, 0x7FFFFFFF);
  patch<uint32_t>(zip, zip.find("x/data/0") - kLocal + 22, 0x7FFFFFFF);
  refused(ErrorCode::kLimit, "64 MiB and eight times", zip);
}

TEST_CASE("encryption is refused") {
  corrupt(
      "encrypted", [](auto& z) { patch<uint16_t>(z, entry_at(z, 0) + 8, 1); },
      ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace rlreplay::foreign
