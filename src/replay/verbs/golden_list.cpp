#include <iostream>

#include "src/base/error.h"
#include "src/base/words.h"
#include "src/replay/gate/environment.h"
#include "src/replay/gate/pending.h"
#include "src/replay/gate/place.h"
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

/// The first of what is wrong with a file, from its name to its values; empty: nothing.
std::string problem_of(const std::string& path) {
  try {
    (void)gate::key_of(path);
    const gate::Golden golden = gate::read(path);
    if (gate::about(golden, "commit").ends_with("-changed")) {
      return "was recorded from a checkout with changes, which nobody can check out again";
    }
    const std::string said = gate::about(golden, "class");
    if (!said.empty() && said != gate::key_of(path).class_name) {
      return "its name says class " + gate::key_of(path).class_name + ", and its lines " + said;
    }
    if (golden.quarantine && !gate::holds(golden.quarantine, gate::today())) {
      return "its quarantine has ended: " + to_string(*golden.quarantine);
    }
    return gate::emptiness_of(golden.values);
  } catch (const Error& error) {
    return error.where() + ": " + error.what();
  }
}

}  // namespace

int golden_list(const GoldenArguments& arguments) {
  for (const std::string& path : gate::golden_files(arguments.paths)) {
    const gate::Golden golden = gate::read(path);
    std::cout << path << "  " << golden.values.size() << " values"
              << (golden.tolerances.empty() ? ", exact" : ", with tolerances")
              << quarantine_text(golden) << pending_text(path) << '\n';
  }
  return 0;
}

int golden_explain(const GoldenArguments& arguments) {
  const std::vector<std::string> classes = gate::classes_now(computing({}));
  std::cout << "classes of this machine:";
  for (const std::string& name : classes) std::cout << ' ' << name;
  std::cout << '\n';
  for (const gate::Choice& choice : gate::choose(gate::golden_files(arguments.paths), classes)) {
    if (choice.path.empty()) {
      std::cout << choice.test << ": none of its files is of these classes\n";
    } else {
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
                  << (gate::holds(golden.quarantine, gate::today()) ? "" : " (it has ended)")
                  << '\n';
      }
      for (const gate::Tolerance& t : golden.tolerances) {
        std::cout << "  tolerance of " << t.keys << "  " << to_string(t) << '\n';
      }
    }
    for (const std::string& other : choice.instead) std::cout << "  not " << other << '\n';
  }
  return 0;
}

int golden_fsck(const GoldenArguments& arguments) {
  std::vector<std::string> others;
  const std::vector<std::string> files = gate::golden_files(arguments.paths, &others);
  size_t problems = 0;
  const auto say = [&](const std::string& path, const std::string& what) {
    std::cout << path << ": " << what << '\n';
    ++problems;
  };
  for (const std::string& path : files) {
    if (const std::string why = problem_of(path); !why.empty()) say(path, why);
  }
  for (const std::string& path : others) say(path, "is no golden file");
  for (const std::string& path : gate::orphans(files)) {
    say(path, "is gone, and has a candidate at " + gate::pending_path(path));
  }
  std::cout << counted(files.size(), "golden file") << ", " << counted(problems, "problem") << '\n';
  return problems == 0 ? 0 : 1;
}

}  // namespace rlreplay::replay
