// Files changed at random: each is read or refused with an error, and nothing else happens. Runs
// under the sanitizers' presets, where a wrong access ends the program.
#include <iostream>
#include <random>

#include "format/foreign/dump_check.h"
#include "tests/foreign/support.h"

namespace rlreplay::foreign {
namespace {

namespace fs = std::filesystem;

/// One to four edits: a byte, a run of zeros or ones, a number of interest, a cut, a repetition.
void mutate(std::string& bytes, std::mt19937_64& random) {
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  for (size_t edits = 1 + below(4); edits > 0 && !bytes.empty(); --edits) {
    const size_t at = below(bytes.size());
    const size_t run = std::min(bytes.size() - at, 1 + below(16));
    switch (below(6)) {
      case 0:
        bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes[at] = static_cast<char>(bytes[at] ^ 1 << below(8));
        break;
      case 2:
        bytes.replace(at, run, run, random() % 2 == 0 ? '\0' : '\xff');
        break;
      case 3:
        if (at + 4 <= bytes.size()) {
          patch<uint32_t>(bytes, at, uint32_t{1} << below(32));
        }
        break;
      case 4:
        bytes.erase(at, run);
        break;
      default:
        bytes.insert(at, bytes.substr(at, run));
        break;
    }
  }
}

/// Reads a file as `show` would. Errors of the reader are answers; anything else fails the test.
bool survives(const std::string& path) {
  try {
    const TorchFile file(path);
    check_dump(file.tree(), file.root());
    size_t length = 0;
    write_canonical_json(file.tree(), file.root(),
                         [&](std::string_view piece) { length += piece.size(); });
    return length > 0;
  } catch (const Error& error) {
    CHECK(error.code() != ErrorCode::kInternal);
    CHECK(!error.where().empty());
    return false;
  }
}

/// The archive's pickle changed and its CRCs made right again, so that the change reaches the
/// machine behind the container's checks.
std::string mutate_inside(const std::string& bytes, std::mt19937_64& random) {
  const ZipArchive archive(as_bytes(bytes));
  std::vector<TestMember> members;
  for (const ZipArchive::Member& member : archive.members()) {
    members.push_back({std::string(member.name), std::string(as_text(member.content))});
    if (member.name.ends_with("data.pkl")) mutate(members.back().content, random);
  }
  return make_zip(members);
}

TEST_CASE("mutated files are read or refused, never worse") {
  std::vector<std::string> originals;
  for (const auto& entry : fs::directory_iterator(RLREPLAY_TEST_DATA)) {
    if (entry.path().extension() == ".pt") originals.push_back(read_text(entry.path()));
  }
  std::sort(originals.begin(), originals.end());
  const uint64_t seed = 20261121;
  const int count = full_run() ? 10000 : 1000;
  std::cout << count << " mutations, seed " << seed << "\n";
  std::mt19937_64 random(seed);
  const TempFolder folder;
  int readable = 0;
  for (int i = 0; i < count; ++i) {
    INFO("mutation " << i);
    std::string bytes = originals[random() % originals.size()];
    if (i % 4 == 0) {
      mutate(bytes, random);
    } else {
      bytes = mutate_inside(bytes, random);
    }
    readable += survives(folder.write("file.pt", bytes)) ? 1 : 0;
  }
  // Some changes hit a text or a number and leave a sound file; most do not.
  CHECK(readable > 0);
  CHECK(readable < count);
}

}  // namespace
}  // namespace rlreplay::foreign
