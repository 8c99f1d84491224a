#include <iostream>

#include "src/base/error.h"
#include "src/base/words.h"
#include "src/replay/gate/environment.h"
#include "src/replay/gate/pending.h"
#include "src/replay/gate/place.h"
#include "src/replay/rerun/golden_run.h"
#include "src/replay/run/machine.h"
#include "src/replay/verbs/golden_parts.h"

namespace rlreplay::replay {
namespace {

std::string_view pending_text(const std::string& path) {
  switch (gate::pending(path)) {
    case gate::Pending::kNone:
      return "";
    case gate::Pending::kCurrent:
      return ", a candidate is pending";
    case gate::Pending::kStale:
      return ", a candidate of what it was before is pending";
  }
  return "";
}

std::string quarantine_text(const gate::Golden& golden) {
  if (!golden.quarantine) return "";
  const bool holds = gate::holds(golden.quarantine, gate::today());
  return (holds ? ", in quarantine until " : ", its quarantine ended on ") +
         golden.quarantine->until;
}

/// The options of a run of ours as a check takes them; empty: it would.
std::string problem_of_options(const gate::Golden& golden) {
  if (!gate::about(golden, "run").empty()) return "";
  try {
    check_says_run(golden, "");
    check_golden_options(options_of(golden.options));
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

/// What is wrong with a file, from its name to its values.
std::vector<std::string> problems_of(const std::string& path) {
  std::vector<std::string> out;
  const auto add = [&](std::string why) {
    if (!why.empty()) out.push_back(std::move(why));
  };
  try {
    static_cast<void>(gate::key_of(path));
    const gate::Golden golden = gate::read(path);
    if (gate::about(golden, "commit").ends_with("-changed")) {
      add("was recorded from a checkout with changes, which nobody can check out again");
    }
    const std::string said = gate::about(golden, "class");
    if (!said.empty() && said != gate::key_of(path).class_name) {
      add("its name says class " + gate::key_of(path).class_name + ", and its lines " + said);
    }
    if (golden.quarantine && !gate::holds(golden.quarantine, gate::today())) {
      add("its quarantine has ended: " + to_string(*golden.quarantine));
    }
    add(problem_of_options(golden));
    add(gate::emptiness_of(golden.values));
  } catch (const Error& error) {
    add(reason_at(path, error));
  }
  return out;
}

void print_listed(const std::string& path) {
  const gate::Golden golden = gate::read(path);
  std::cout << path << "  " << golden.values.size() << " values"
            << (golden.tolerances.empty() ? ", exact" : ", with tolerances")
            << quarantine_text(golden) << pending_text(path) << '\n';
}

void print_explained(const gate::Choice& choice) {
  if (choice.path.empty()) {
    std::cout << choice.test << ": none of its files is of these classes\n";
    return;
  }
  const gate::Golden golden = gate::read(choice.path);
  std::cout << choice.test << ": " << choice.path << '\n';
  for (const auto& [name, value] : golden.about) {
    std::cout << "  " << name << "  " << value << '\n';
  }
  for (const auto& [name, hash] : golden.inputs) {
    std::cout << "  input " << name << "  " << hash << '\n';
  }
  if (golden.quarantine) {
    std::cout << "  quarantine  " << to_string(*golden.quarantine)
              << (gate::holds(golden.quarantine, gate::today()) ? "" : " (it has ended)") << '\n';
  }
  for (const gate::Tolerance& t : golden.tolerances) {
    std::cout << "  tolerance of " << t.keys << "  " << to_string(t) << '\n';
  }
}

}  // namespace

UnreadFiles::UnreadFiles(const gate::FoundFiles& found)
    : hides_none_(found.unread.empty() && found.all().size() == 1) {
  if (found.all().empty()) throw found.unread.front();
  for (const Error& error : found.unread) add(error.where(), error);
}

bool UnreadFiles::read(const std::string& path, const std::function<void()>& reads) {
  try {
    reads();
    return true;
  } catch (const Error& error) {
    if (hides_none_ || error.code() == ErrorCode::kInterrupted) throw;
    add(path, error);
    return false;
  }
}

void UnreadFiles::add(const std::string& path, const Error& error) {
  std::cout << path << ": cannot be read: " << reason_at(path, error) << '\n';
  if (code_ == 0) code_ = exit_code(error.code());
}

std::string reason_at(const std::string& path, const Error& error) {
  const bool is_place = !error.where().empty() && error.where() != path;
  return (is_place ? error.where() + ": " : "") + error.what();
}

int golden_list(const GoldenArguments& arguments) {
  const gate::FoundFiles found = gate::find_golden_files(arguments.paths);
  UnreadFiles unread(found);
  for (const std::string& path : found.all()) {
    static_cast<void>(unread.read(path, [&] { print_listed(path); }));
  }
  return unread.code();
}

int golden_explain(const GoldenArguments& arguments) {
  const gate::FoundFiles found = gate::find_golden_files(arguments.paths);
  UnreadFiles unread(found);
  const std::vector<std::string> classes = gate::classes_now(computing({}));
  std::cout << "classes of this machine:";
  for (const std::string& name : classes) std::cout << ' ' << name;
  std::cout << '\n';
  for (const gate::Choice& choice : gate::choose(found.all(), classes)) {
    static_cast<void>(unread.read(choice.path, [&] { print_explained(choice); }));
    for (const std::string& other : choice.instead) std::cout << "  not " << other << '\n';
  }
  return unread.code();
}

int golden_fsck(const GoldenArguments& arguments) {
  const gate::FoundFiles found = gate::find_golden_files(arguments.paths);
  const std::vector<std::string> files = found.all();
  if (files.empty()) throw found.unread.front();
  size_t problems = 0;
  const auto say = [&](const std::string& path, const std::string& what) {
    std::cout << path << ": " << what << '\n';
    ++problems;
  };
  for (const std::string& path : files) {
    for (const std::string& why : problems_of(path)) say(path, why);
  }
  for (const Error& unread : found.unread) say(unread.where(), unread.what());
  for (const std::string& path : found.others) say(path, "is no golden file");
  for (const std::string& path : gate::orphans(files)) {
    say(path, "is gone, and has a candidate at " + gate::pending_path(path));
  }
  std::cout << counted(files.size(), "golden file") << ", " << counted(problems, "problem") << '\n';
  return problems == 0 ? 0 : 1;
}

}  // namespace rlreplay::replay
