#include <iostream>

#include "src/base/error.h"
#include "src/replay/gate/golden_lock.h"
#include "src/replay/gate/pending.h"
#include "src/replay/gate/place.h"
#include "src/replay/verbs/golden_parts.h"

namespace rlreplay::replay {

void check_may_write() {
  if (!gate::in_ci()) return;
  throw Error(
      ErrorCode::kUsage,
      "no golden file is written where CI is set: do it on your own machine, and commit the file");
}

void check_reason(const std::string& reason, const std::string& path) {
  if (reason.find_first_not_of(" \t\r\n\v\f") != std::string::npos) return;
  throw Error(ErrorCode::kUsage, "say why bits change: --reason WHY is kept in the file", path);
}

std::vector<std::string> pending_of(const std::vector<std::string>& paths) {
  std::vector<std::string> out;
  for (const std::string& file : gate::golden_files(paths)) {
    if (gate::pending(file) != gate::Pending::kNone) out.push_back(file);
  }
  if (out.empty()) {
    throw Error(ErrorCode::kIncomplete,
                "nothing is pending: rlreplay golden check leaves what it finds different",
                paths.front());
  }
  return out;
}

void accept_candidate(const std::string& path, gate::Golden candidate, const std::string& reason) {
  candidate.about["reason"] = reason;
  candidate.about.erase("begins");  // of a difference, which there is no longer
  gate::write(path, candidate);
  gate::drop_candidate(path);
  std::cout << "accepted: " << path << '\n';
}

void reject_candidate(const std::string& path) {
  gate::drop_candidate(path);
  std::cout << "rejected: " << path << '\n';
}

int golden_accept(const GoldenArguments& arguments) {
  check_may_write();
  const std::vector<std::string> files = pending_of(arguments.paths);
  check_reason(arguments.reason);
  const gate::GoldenLock lock(files);
  std::vector<gate::Golden> candidates;  // all of them are read before the first is accepted
  for (const std::string& path : files) candidates.push_back(gate::read_candidate(path));
  for (size_t i = 0; i < files.size(); ++i) {
    accept_candidate(files[i], candidates[i], arguments.reason);
  }
  return 0;
}

int golden_reject(const GoldenArguments& arguments) {
  check_may_write();
  for (const std::string& path : pending_of(arguments.paths)) reject_candidate(path);
  return 0;
}

}  // namespace rlreplay::replay
