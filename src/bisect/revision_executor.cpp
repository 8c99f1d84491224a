#include "src/bisect/revision_executor.h"

#include <chrono>
#include <cstdio>
#include <ctime>
#include <utility>

#include "src/base/error.h"
#include "src/base/terminal.h"
#include "src/bisect/checkout.h"

namespace rlreplay::bisect {
namespace {

using measure::Build;
using measure::Candidate;
using measure::Measurement;
using measure::RunKind;

/// 2026-11-25T14:02:11Z
std::string utc_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace

RevisionExecutor::RevisionExecutor(const Repository& repository, const Recipe& recipe,
                                   Workspace& workspace, const Interrupt& interrupt,
                                   std::function<std::string()> reference_of)
    : repository_(repository),
      recipe_(recipe),
      workspace_(workspace),
      interrupt_(interrupt),
      reference_of_(std::move(reference_of)) {}

/// Says it of each once.
void RevisionExecutor::say_empty(const std::set<std::string>& submodules) {
  for (const std::string& path : submodules) {
    if (!empty_.insert(path).second) continue;
    std::fprintf(stderr,
                 "rlbisect: the submodule %s stays empty: there is no clone of it to fill it from "
                 "(git submodule update --init)\n",
                 terminal_text(path).c_str());
  }
}

/// Checks out and builds; a measurement where that fails.
std::optional<Measurement> RevisionExecutor::prepare(const Candidate& candidate,
                                                     const RunPlace& place) {
  worktree_.reset();
  revision_.clear();
  build_ = place.folder.path + "#" + std::to_string(++builds_);
  try {
    const auto of = candidate.settings.find(kOuter);
    const bool inner = of != candidate.settings.end();
    worktree_.emplace(repository_, inner ? of->second : candidate.revision, workspace_.worktree());
    say_empty(fill_submodules(repository_, worktree_->path(),
                              inner ? Submodule{candidate.settings.at(kDependency),
                                                candidate.revision, candidate.settings.at(kClone)}
                                    : Submodule{}));
    if (!recipe_.overlay.empty()) lay_over(recipe_.overlay, worktree_->path());
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kEnvironment) throw;
    worktree_.reset();
    return Measurement{.kind = RunKind::kNoCheckout, .problem = error.what()};
  }
  return build_checkout(recipe_, place, workspace_, interrupt_);
}

Measurement RevisionExecutor::measure(const Candidate& candidate, Build build) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const RunFolder folder = workspace_.add_run(candidate.revision.substr(0, 12));
  const RunPlace place{.checkout = workspace_.worktree(),
                       .revision = candidate.revision,
                       .reference = reference_of_(),
                       .folder = folder};
  const bool built = build == Build::kAny && worktree_ && revision_ == candidate.revision;
  std::optional<Measurement> out = built ? std::nullopt : prepare(candidate, place);
  if (!out) {
    revision_ = recipe_.build.empty() ? "" : candidate.revision;
    out = run_checkout(recipe_, place, workspace_, interrupt_);
  }
  if (revision_.empty()) worktree_.reset();
  out->output = folder.output();
  out->build = build_;
  out->date = utc_now();
  out->seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return *out;
}

}  // namespace rlreplay::bisect
