#include "src/bisect/bisect_log.h"

#include <map>
#include <sstream>

#include "src/base/error.h"
#include "src/base/input_file.h"

namespace rlreplay::bisect {

std::vector<std::pair<std::string, measure::Verdict>> read_bisect_log(const std::string& path) {
  using measure::Verdict;
  static const std::map<std::string, Verdict> kWords = {{"good", Verdict::kGood},
                                                        {"old", Verdict::kGood},
                                                        {"bad", Verdict::kBad},
                                                        {"new", Verdict::kBad},
                                                        {"skip", Verdict::kSkip}};
  constexpr size_t kMaxLog = size_t{64} << 20;
  std::vector<std::pair<std::string, Verdict>> out;
  std::istringstream lines(read_file(path, kMaxLog, "a log of git bisect"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string git, bisect, word;
    words >> git >> bisect >> word;
    const auto verdict = kWords.find(word);
    if (git != "git" || bisect != "bisect" || verdict == kWords.end()) continue;
    for (std::string commit; words >> commit;) {
      std::erase(commit, '\'');
      out.emplace_back(commit, verdict->second);
    }
  }
  if (!out.empty()) return out;
  throw Error(ErrorCode::kCorrupt,
              "this is no log of git bisect: no line `git bisect good COMMIT` or bad or skip",
              path);
}

}  // namespace rlreplay::bisect
