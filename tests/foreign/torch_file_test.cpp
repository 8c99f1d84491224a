#include "format/foreign/dump_check.h"
#include "tests/foreign/support.h"

namespace rlreplay::foreign {
namespace {

namespace fs = std::filesystem;

const fs::path kData = RLREPLAY_TEST_DATA;

TEST_CASE("files of Python's own pickler have the content that Python says") {
  size_t count = 0;
  for (const auto& entry : fs::directory_iterator(kData)) {
    if (entry.path().extension() != ".pt") continue;
    INFO(entry.path().filename().string());
    const TorchFile file(entry.path().string());
    const std::string stem = entry.path().stem().string();
    const std::string expected = read_text(kData / (stem.substr(0, stem.find('_')) + ".json"));
    CHECK(show(file) + "\n" == expected);
    CHECK(file.problems().empty());
    CHECK(file.archive_root() == stem);
    ++count;
  }
  REQUIRE(count >= 15);
}

TEST_CASE("lists of numbers are kept in narrow types") {
  const TorchFile file((kData / "rollout.pt").string());
  const Value samples = *file.tree().find(file.root(), "samples");
  const Value sample = file.tree().sequence(samples)[1];
  const auto packing = [&](const char* key) {
    return file.tree().sequence(*file.tree().find(sample, key)).packing();
  };
  CHECK(packing("tokens") == Sequence::Packing::kI32);
  CHECK(packing("loss_mask") == Sequence::Packing::kU8);
  CHECK(packing("rollout_log_probs") == Sequence::Packing::kF64);
}

TEST_CASE("other formats are refused by name") {
  using namespace std::string_literals;
  const TempFolder folder;
  const auto refused = [&](ErrorCode code, std::string_view fragment, const std::string& bytes) {
    const std::string path = folder.write("file.pt", bytes);
    expect_error(code, fragment, [&] { TorchFile file(path); });
  };
  refused(ErrorCode::kCorrupt, "empty", "");
  refused(ErrorCode::kCorrupt, "no end record", "step,loss\n0,0.5\n");
  refused(ErrorCode::kUnsupported, "bare pickle", "\x80\x02N.");
  refused(ErrorCode::kUnsupported, "gzip", "\x1f\x8b\x08");
  refused(ErrorCode::kUnsupported, "safetensors", little<uint64_t>(2) + "{}");
  refused(ErrorCode::kUnsupported, "before 1.6",
          "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.\x80\x02M\xe9\x03."s);
  expect_error(ErrorCode::kUnsupported, "directory",
               [&] { TorchFile file(folder.path().string()); });
  expect_error(ErrorCode::kIncomplete, "no such file",
               [&] { TorchFile file((folder.path() / "absent.pt").string()); });
}

TEST_CASE("records beside the pickle are checked") {
  const TempFolder folder;
  const auto refused = [&](ErrorCode code, std::string_view fragment,
                           const std::vector<TestMember>& members) {
    const std::string path = folder.write("file.pt", make_zip(members));
    expect_error(code, fragment, [&] { TorchFile file(path); });
  };
  const TestMember pickle{"x/data.pkl", "N."};
  const TestMember version{"x/version", "3\n"};
  refused(ErrorCode::kCorrupt, "no members", {});
  refused(ErrorCode::kCorrupt, "no data.pkl", {version});
  refused(ErrorCode::kCorrupt, "no record 'version'", {pickle});
  refused(ErrorCode::kUnsupported, "version 99", {pickle, {"x/version", "99\n"}});
  refused(ErrorCode::kCorrupt, "not a number", {pickle, {"x/version", "three"}});
  refused(ErrorCode::kUnsupported, "big-endian", {pickle, version, {"x/byteorder", "big"}});
  refused(ErrorCode::kCorrupt, "neither word", {pickle, version, {"x/byteorder", "middle"}});
  refused(ErrorCode::kUnsupported, "TorchScript", {pickle, version, {"x/constants.pkl", "N."}});
  refused(ErrorCode::kCorrupt, "several folders", {pickle, version, {"y/version", "3\n"}});
}

TEST_CASE("bytes behind the pickle are reported, not read") {
  const TempFolder folder;
  const TorchFile file(folder.write("file.pt", make_torch_zip("N.cos\nsystem\n)R.")));
  REQUIRE(file.problems().size() == 1);
  CHECK(file.problems()[0].code == "trailing-bytes");
  CHECK(show(file) == "null");
}

TEST_CASE("an error names the file, the member and the byte") {
  const TempFolder folder;
  const std::string path = folder.write("file.pt", make_torch_zip("Ncos\nsystem\n."));
  try {
    TorchFile file(path);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.where() == path + ": data.pkl, byte 1 (GLOBAL)");
  }
}

TEST_CASE("contradictions inside a dump are reported by code") {
  const TempFolder folder;
  const auto codes = [&](const std::string& pickle) {
    const TorchFile file(folder.write("file.pt", make_torch_zip(pickle)));
    std::vector<std::string> found;
    for (const Problem& problem : check_dump(file.tree(), file.root())) {
      found.push_back(problem.code);
    }
    return found;
  };
  using Codes = std::vector<std::string>;
  // Protocol 0: texts with V, integers with I, floats with F.
  const auto rollout = [](const std::string& fields) {
    return "(Vrollout_id\nI0\nVsamples\n((" + fields + "dld.";
  };
  const std::string good = "Vtokens\n(I5\nI6\nI7\nlVresponse_length\nI2\n";
  CHECK(codes(rollout(good)) == Codes{});
  CHECK(codes("N.") == Codes{"not-a-dump"});
  CHECK(codes("(Vrollout_id\nI0\nd.") == Codes{"not-a-dump"});
  CHECK(codes(rollout(good + "Vloss_mask\n(I1\nl")) == Codes{"length-mismatch"});
  CHECK(codes(rollout(good + "Vloss_mask\n(I1\nI2\nl")) == Codes{"bad-mask"});
  CHECK(codes(rollout(good + "Vrollout_log_probs\n(F-1\nFnan\nl")) == Codes{"non-finite"});
  CHECK(codes(rollout(good + "Vrollout_log_probs\n(F-1\nF0.5\nl")) == Codes{"bad-log-prob"});
  CHECK(codes(rollout(good + "Vstatus\nVlost\n")) == Codes{"unknown-status"});
  CHECK(codes(rollout("Vtokens\n(I-1\nl")) == Codes{"bad-token"});
  CHECK(codes(rollout("Vtokens\n(I1\nF0.5\nl")) == Codes{"bad-token"});
  CHECK(codes(rollout("Vtokens\n(I1\nlVresponse_length\nI2\n")) == Codes{"length-mismatch"});
  CHECK(codes(rollout("Vresponse_length\nI-2\n")) == Codes{"length-mismatch"});
  CHECK(codes("(Vrollout_id\nI0\nVsamples\n((Vindex\nI1\nd(Vindex\nI1\ndld.") ==
        Codes{"duplicate-index"});
  CHECK(codes("(Vformat_version\nI7\nVrank\nI0\nVsamples\n(ld.") == Codes{"unknown-version"});
  CHECK(codes("(Vrollout_data\n(Vtokens\n((I1\nllVtotal_lengths\n(I1\nI2\nldd.") ==
        Codes{"length-mismatch"});
}

TEST_CASE("the project's own rollout and train files are sound dumps") {
  for (const char* name : {"rollout.pt", "train.pt"}) {
    const TorchFile file((kData / name).string());
    CHECK(check_dump(file.tree(), file.root()).empty());
  }
}

}  // namespace
}  // namespace rlreplay::foreign
