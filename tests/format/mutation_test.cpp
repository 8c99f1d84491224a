#include <catch2/catch.hpp>
#include <iostream>

#include "format/rule.h"
#include "format/verify.h"
#include "tests/format/dumps.h"

/// Random damage to the kinds of file: all of it must be refused, by a rule that is checked
/// before a byte of a unit is parsed.
using namespace rlreplay;
using namespace rlreplay::format;
using namespace rlreplay::format::test;

namespace {

void mutate(Random& random, std::string& text) {
  const auto at = [&] { return text.empty() ? 0 : random.below(text.size()); };
  switch (random.below(8)) {
    case 0:
      text.resize(at());
      break;
    case 1:
      text.insert(at(), 1 + random.below(20), static_cast<char>(random.bits()));
      break;
    case 2:
      text.erase(at(), 1 + random.below(20));
      break;
    case 3: {  // a piece twice
      const std::string piece = text.substr(at(), 1 + random.below(200));
      text.insert(at(), piece);
      break;
    }
    case 4: {  // a digit, letter or bracket for another
      static constexpr char kLikely[] = "0123456789abcdef{}[]\",:-";
      if (!text.empty()) text[at()] = kLikely[random.below(sizeof kLikely - 1)];
      break;
    }
    default:
      for (uint64_t i = 0, n = 1 + random.below(4); i < n && !text.empty(); ++i) {
        text[at()] ^= static_cast<char>(1 + random.below(255));
      }
  }
}

/// A record whose hash fits its body again: what an adversary would write.
void reseal(std::string& text) {
  std::string out;
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string line = text.substr(begin, end - begin);
    const size_t tail = line.rfind(",\"hash\":\"");
    if (line.starts_with("{\"body\":") && tail != std::string::npos && tail > 8) {
      const std::string body = line.substr(8, tail - 8);
      out += "{\"body\":" + body + ",\"hash\":\"" + hash_of(body).hex() + "\"}\n";
    } else {
      out += line + "\n";
    }
  }
  text = out + text.substr(begin);
}

bool before_container(Rule rule) { return rule <= Rule::kUnitHash; }

}  // namespace

TEST_CASE("every mutation is refused before a unit is parsed, or changes nothing") {
  const uint64_t seed = 20260101;
  const int trials = full() ? 10'000 : 1'000;
  TemporaryFolder folder;
  write_dump(folder / "sealed", 3);
  WriterOptions options;
  options.unstable = R"({"began":"2026-01-01T00:00:00Z","machine":{"host":"h","processors":2}})";
  {
    append_units(*std::make_unique<DumpWriter>(DumpWriter::create(folder / "open", kMeta, options)),
                 0, 3);
  }
  const Hash sealed_root = DumpReader::open(folder / "sealed").root();
  const std::pair<std::string, std::string> targets[] = {
      {"sealed", "manifest.json"}, {"sealed", "journal/0.jsonl"}, {"open", "journal/0.jsonl"},
      {"open", "INCOMPLETE"},      {"sealed", "units.index"},     {"sealed", "train/0-0/rank1.h5"},
      {"open", "rollout/0.h5"}};
  int refused = 0, harmless = 0;
  for (int trial = 0; trial < trials; ++trial) {
    Random random(seed + static_cast<uint64_t>(trial));
    const auto& [dump, file] = targets[static_cast<size_t>(trial) % std::size(targets)];
    const std::string path = folder / dump;
    const std::string original = read_text(path + "/" + file);
    std::string text = original;
    mutate(random, text);
    if (random.below(2) == 0 && !file.ends_with(".h5")) reseal(text);
    write_text(path + "/" + file, text);
    CAPTURE(trial, file);
    try {
      const VerifyReport report = verify(path, true);
      // Whatever the writer left of itself, the dump is read.
      if (file == "INCOMPLETE") CHECK(report.whole_units == 3);
      for (const Problem& problem : report.problems) {
        CAPTURE(problem.message);
        CHECK((before_container(problem.rule) || problem.rule == Rule::kContent ||
               problem.rule == Rule::kUnlisted || problem.rule == Rule::kDataLimit ||
               problem.rule == Rule::kAttribute));
        // Those behind the gate can only come from a resealed record over sound stored bytes.
        if (file.ends_with(".h5")) CHECK(before_container(problem.rule));
      }
      if (report.problems.empty()) {
        ++harmless;
        // The root holds what a dump means; a resealed manifest may differ in what it leaves out
        // (a newer minor, `unstable`).
        const bool covered = dump == "sealed" && file != "manifest.json";
        if (covered && text != original) CHECK(report.root != sealed_root);
      } else {
        ++refused;
      }
    } catch (const Error& e) {
      FAIL_CHECK("not in the report: " << e.what());
    }
    write_text(path + "/" + file, original);
  }
  std::cout << refused << " refused, " << harmless << " harmless of " << trials << "\n";
  CHECK(refused > trials * 8 / 10);
}
