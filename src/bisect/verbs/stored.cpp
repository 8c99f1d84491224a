#include <CLI/App.hpp>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <string_view>
#include <utility>

#include "src/base/error.h"
#include "src/base/shell.h"
#include "src/base/terminal.h"
#include "src/base/words.h"
#include "src/bisect/git.h"
#include "src/bisect/guardian.h"
#include "src/bisect/session.h"
#include "src/bisect/verbs/search_verbs.h"
#include "src/bisect/workspace.h"
#include "src/replay/verbs/command_line.h"

namespace rlreplay::bisect {
namespace {

std::string command_of(const StoredSession& session) {
  std::string command = "rlbisect";
  for (const std::string& word : session.words) command += " " + shell_word(word);
  return command;
}

/// The commits between which it searched, which its words may name no more; empty where it does not
/// say them.
std::string ends_of(const StoredSession& session) {
  if (session.good.empty()) return "";
  return "between " + session.good.substr(0, 12) + " and " + session.bad.substr(0, 12) + "\n";
}

/// What the last search has judged, and where it is.
int print_status(const StoredSession& session) {
  std::cout << terminal_text(command_of(session)) << '\n'
            << ends_of(session) << "in " << terminal_text(session.place) << '\n';
  for (const StoredSession::Line& line : session.lines) {
    std::cout << line.revision.substr(0, 12) << " " << line.verdict << " (" << line.purpose
              << (line.dependency.empty() ? "" : " in " + terminal_text(line.dependency))
              << "): " << terminal_text(line.reason) << '\n';
  }
  const bool ended = !session.result.empty() && !session.cut;
  if (ended) std::cout << session.result << '\n';
  const bool single = session.confirmed && session.suspects.size() == 1;
  const char* what = is_of_changes(session) ? "change " : single ? "culprit " : "possible ";
  for (const std::string& suspect : session.suspects) std::cout << what << suspect << '\n';
  if (!ended) std::cout << "it has not ended" << going_on(session.fresh) << '\n';
  return ended ? kGoodExit : kBadExit;
}

/// Errors: kUsage for a commit of an end that git has removed.
void check_ends(const Repository& repository, const StoredSession& session) {
  for (const auto& [name, end] : {std::pair{"good", session.good}, {"bad", session.bad}}) {
    if (end.empty() || try_resolve(repository.folder(), end)) continue;
    throw Error(ErrorCode::kUsage,
                std::string("the commit that was the ") + name + " end of the last search, " + end +
                    ", is no longer in this repository: name both ends anew, rlbisect GOOD..BAD",
                repository.folder());
  }
}

/// The same search from the same folder, between the commits that its ends were: what was run is
/// not run again. Where it kept its output by -o, that folder is not used again.
int resume(const Repository& repository, const StoredSession& session) {
  check_ends(repository, session);
  std::vector<std::string> words = {"rlbisect"};
  for (size_t i = 0; i < session.words.size(); ++i) {
    const std::string& word = session.words[i];
    if (word == "-o" || word == "--out") {
      ++i;
    } else if (!word.starts_with("--out=") && !word.starts_with("-o")) {
      words.push_back(word);
    }
  }
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  std::filesystem::current_path(session.place);
  std::fprintf(stderr, "%s\n%s", terminal_text(command_of(session)).c_str(),
               ends_of(session).c_str());
  const int count = static_cast<int>(arguments.size());
  if (session.good.empty()) return run_search(count, arguments.data());
  return run_search_between(count, arguments.data(), session.good, session.bad);
}

int collect_garbage(const Repository& repository) {
  Workspace::remove_abandoned(repository);
  const size_t running = remove_stored(repository.store());
  if (running > 0) {
    std::cout << counted(running, "search") << " still running: what is stored for them stays\n";
  }
  return kGoodExit;
}

const char* about(const std::string& verb) {
  if (verb == "status") return "What the last search in a repository has judged";
  if (verb == "log") return "The last search as git bisect replay reads it";
  if (verb == "resume") return "Goes on with the last search where it was cut short";
  return "Removes all that searches have stored in a repository";
}

}  // namespace

int run_stored(int argc, char** argv) {
  const std::string verb = argv[0];
  CLI::App app(about(verb), "rlbisect " + verb);
  std::string folder = ".";
  replay::set_up_help(app);
  app.add_option("--repo", folder, "the git repository (default: here)");
  app.footer("Example:\n  rlbisect " + verb + " --repo ~/trainer\n\nExit codes: those of rlbisect" +
             (verb == "status" ? "; 1 where the search has not ended." : "."));
  const auto ended = replay::read_words(app, {argv + 1, argv + argc});
  if (ended) return *ended;
  const Repository repository = Repository::open(folder);
  if (verb == "gc") return collect_garbage(repository);
  const StoredSession session = last_session(repository.store());
  if (verb == "status") return print_status(session);
  if (verb == "resume") return resume(repository, session);
  std::cout << bisect_log(session);
  return kGoodExit;
}

int run_guard(int argc, char** argv) {
  static_assert(std::string_view(kGuardVerb) == kGuardWord);
  return guard(argc, argv);
}

}  // namespace rlreplay::bisect
