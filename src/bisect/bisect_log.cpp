#include "src/bisect/bisect_log.h"

#include <map>
#include <regex>
#include <sstream>

#include "src/base/error.h"
#include "src/base/input_file.h"

namespace rlreplay::bisect {

namespace {

using Words = std::map<std::string, measure::Verdict>;

/// What the words of a log mean, with the terms that `git bisect start --term-new=slow` has made.
Words words_of(const std::string& log) {
  using measure::Verdict;
  Words words = {{"good", Verdict::kGood},
                 {"old", Verdict::kGood},
                 {"bad", Verdict::kBad},
                 {"new", Verdict::kBad},
                 {"skip", Verdict::kSkip}};
  static const std::regex kTerm(R"(--term-(old|good|new|bad)('? '?|=)([\w-]+))");
  for (std::sregex_iterator at(log.begin(), log.end(), kTerm), end; at != end; ++at) {
    words[at->str(3)] = words.at(at->str(1));
  }
  return words;
}

}  // namespace

std::vector<std::pair<std::string, measure::Verdict>> read_bisect_log(const std::string& path) {
  constexpr size_t kMaxLog = size_t{64} << 20;
  const std::string log = read_file(path, kMaxLog, "a log of git bisect");
  const Words known = words_of(log);
  std::vector<std::pair<std::string, measure::Verdict>> out;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string first, second, third;
    words >> first >> second >> third;
    // Of the ends that `git bisect start` is given only the comments have hashes.
    const bool comment = first == "#" && second.ends_with(':') && third.starts_with('[');
    if (comment) second.pop_back();
    if (!comment && (first != "git" || second != "bisect")) continue;
    const auto verdict = known.find(comment ? second : third);
    if (verdict == known.end()) continue;
    for (std::string commit = third; comment || words >> commit;) {
      std::erase_if(commit, [](char c) { return c == '\'' || c == '[' || c == ']'; });
      out.emplace_back(commit, verdict->second);
      if (comment) break;
    }
  }
  if (!out.empty()) return out;
  throw Error(ErrorCode::kCorrupt,
              "this is no log of git bisect: no line `git bisect good COMMIT` or bad or skip",
              path);
}

}  // namespace rlreplay::bisect
