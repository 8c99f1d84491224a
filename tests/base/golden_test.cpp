#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/base/golden_file.h"
#include "src/base/natural_order.h"
#include "tests/temporary_folder.h"

using namespace rlreplay;

namespace {

const GoldenFile kFile{"rlreplay golden record --model demo\nanother line",
                       {{"step 0 loss", "0x1.8p-1"}, {"step 0 weights", "4c309745"}, {"b", "-3"}}};

const std::string kText =
    "# rlreplay golden 2\n# made by: rlreplay golden record --model demo\n# another line\n"
    "b -3\nstep 0 loss 0x1.8p-1  # 0.75\nstep 0 weights 4c309745\n";

Error error_of(const std::string& text) {
  try {
    parse_golden(text, "file");
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::kInternal, "no error"};
}

std::string report(const std::string& recorded, const std::string& now) {
  return to_string(compare_golden({{"k", recorded}}, {{"k", now}}));
}

}  // namespace

TEST_CASE("a golden file is sorted text, and reads back as it was") {
  CHECK(golden_text(kFile) == kText);
  const GoldenFile read = parse_golden(kText, "file");
  CHECK(read.made_by == kFile.made_by);
  CHECK(read.entries == kFile.entries);
  CHECK(parse_golden("# rlreplay golden 1\r\n\r\nz 1\r\na 2", "file").entries ==
        GoldenEntries{{"a", "2"}, {"z", "1"}});
  CHECK(golden_text(parse_golden("# rlreplay golden 1", "file")) == "# rlreplay golden 2\n");
}

TEST_CASE("a value of a golden file may be any text, and a float has its decimal beside it") {
  GoldenFile file;
  file.entries = {{"a", ""},          {"b c", "two words"}, {"d", "\"quoted\"\n\\"},
                  {"e", "0x1.8p+0f"}, {"f", "nan"},         {"g", "x  # y"},
                  {"h", "-inf"},      {"i", "50%20"},       {"j", "\xc3\xa9"}};
  const std::string text = golden_text(file);
  CHECK(text.find("b c \"two words\"\n") != text.npos);
  CHECK(text.find("e 0x1.8p+0f  # 1.5\nf nan\n") != text.npos);
  CHECK(parse_golden(text, "file").entries == file.entries);
  const std::string old = "# rlreplay golden 1\n";
  CHECK(parse_golden(old + "a 50%20%\nb \"c\n", "file").entries ==
        GoldenEntries{{"a", "50 %"}, {"b", "\"c"}});
}

TEST_CASE("a golden file is replaced whole") {
  const test::TemporaryFolder folder;
  const std::string path = folder / "golden.txt";
  write_golden(path, {"", {{"old", "1"}}});
  write_golden(path, kFile);
  CHECK(read_golden(path).entries == kFile.entries);
  GoldenFile bad = kFile;
  for (const auto& [key, value] :
       GoldenEntries{{"", "1"}, {"# a", "1"}, {"a\nb", "1"}, {"a  # b", "1"}, {"a \"b", "1"}}) {
    bad.entries = {{key, value}};
    CHECK_THROWS_AS(write_golden(path, bad), Error);
  }
  CHECK_THROWS_AS(write_golden(folder / "no/such/folder", kFile), Error);
  CHECK_THROWS_AS(read_golden(folder / "none"), Error);
  CHECK(read_golden(path).entries == kFile.entries);
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("what is no golden file is refused with its line") {
  const std::string title = "# rlreplay golden 1\n";
  CHECK(error_of("").code() == ErrorCode::kCorrupt);
  CHECK(error_of("loss 1\n").where() == "file:1");
  CHECK(error_of("# rlreplay golden 3\n").code() == ErrorCode::kUnsupported);
  CHECK(error_of(title + "a 1\nb\n").where() == "file:3");
  CHECK(error_of(title + "a \n").where() == "file:2");
  CHECK(error_of(title + " a\n").where() == "file:2");
  for (const char* line : {"a \"b\n", "a \"b\" c\n", "a \"\\x\"\n", " \"b\"\n", "a  # b\n",
                           "a 0x1.8p+0  # 1.6\n", "a 1  # 1\n"}) {
    CHECK(error_of("# rlreplay golden 2\n" + std::string(line)).where() == "file:2");
  }
  CHECK(error_of(title + "a 1\nb 2\na 1\n").where() == "file:4");
  for (const char* line : {"<<<<<<< HEAD\n", "=======\n", ">>>>>>> branch\n"}) {
    CHECK(std::string(error_of(title + line).what()).find("conflict") != std::string::npos);
  }
}

TEST_CASE("a comparison names what differs, is new and is gone") {
  const GoldenEntries recorded{{"a", "1"}, {"b", "2"}, {"d", "4"}};
  CHECK(compare_golden(recorded, recorded).empty());
  const auto differences = compare_golden(recorded, {{"b", "3"}, {"c", "0"}, {"d", "4"}});
  CHECK(to_string(differences) ==
        "a: 1 recorded, not given now\nb: 2 recorded, 3 now\nc: not recorded, 0 now\n");
  CHECK(to_string(differences, 1) == "a: 1 recorded, not given now\nand 2 more\n");
}

TEST_CASE("what differs is in the order of the steps") {
  const GoldenEntries none, some{{"step 10.2 a", "1"}, {"step 2.10 a", "1"}, {"step 2.9 a", "1"}};
  CHECK(to_string(compare_golden(none, some), 2) ==
        "step 2.9 a: not recorded, 1 now\nstep 2.10 a: not recorded, 1 now\nand 1 more\n");
  const std::vector<std::string> ordered = {"",     "a",     "a 1", "a 01", "a 2",
                                            "a 10", "a 10b", "a b", "b"};
  for (size_t i = 0; i < ordered.size(); ++i) {
    for (size_t j = 0; j < ordered.size(); ++j) {
      const bool zeros = ordered[i] == "a 1" || ordered[i] == "a 01";
      if (zeros && (ordered[j] == "a 1" || ordered[j] == "a 01")) continue;
      CHECK(natural_less(ordered[i], ordered[j]) == (i < j));
    }
  }
  CHECK(natural_less("a 1", "a 01") != natural_less("a 01", "a 1"));
}

TEST_CASE("floats of one type are compared in ulps") {
  const float x = 1.5f, next = std::nextafter(x, 2.0f);
  CHECK(golden_value(x) == "0x1.8p+0f");
  CHECK(report(golden_value(x), golden_value(next)) ==
        "k: 0x1.8p+0f recorded, 0x1.800002p+0f now (+1 ulp)\n");
  CHECK(report("0x1.8p+0", "0x1.7fffffffffffep+0").find("(-2 ulps)") != std::string::npos);
  CHECK(report("0x1.8p+0", "0x1.8p+0f").find("ulp") == std::string::npos);
  CHECK(report("12", "13").find("ulp") == std::string::npos);
  CHECK(report("nan", "0x1p+0").find("ulp") == std::string::npos);
  CHECK(report("0x1p+0", "0xzz").find("ulp") == std::string::npos);
  CHECK(report(golden_value(0.0), golden_value(-0.0)).find("zeros of different sign") !=
        std::string::npos);
  CHECK(report("0x1p-1", "0x2p-2").find("(the same number, written otherwise)") !=
        std::string::npos);
  const float huge = std::numeric_limits<float>::max(), tiny = 0x1p-149f;
  CHECK(report(golden_value(huge), golden_value(HUGE_VALF)).find("(+1 ulp)") != std::string::npos);
  CHECK(report(golden_value(-tiny), golden_value(tiny)).find("ulp") == std::string::npos);
  CHECK(report(golden_value(-0.5), golden_value(1.0)).find("(|a - b| 1.5, relative 1.5)") !=
        std::string::npos);
  CHECK(report(golden_value(1.0), golden_value(2.0)).find("(|a - b| 1, relative 0.5)") !=
        std::string::npos);
  CHECK(report(golden_value(0x1p-1074), golden_value(0x3p-1074)).find("(+2 ulps)") !=
        std::string::npos);
}
