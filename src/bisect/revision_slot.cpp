#include "src/bisect/revision_slot.h"

#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>

#include <unistd.h>

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

/// Tells on standard error that submodules stay empty, of each only once.
void say_empty(SlotGround& ground, const std::set<std::string>& submodules) {
  for (const std::string& path : submodules) {
    if (!ground.said_empty.insert(path).second) continue;
    std::fprintf(stderr,
                 "rlbisect: the submodule %s stays empty: there is no clone of it to fill it from "
                 "(git submodule update --init)\n",
                 terminal_text(path).c_str());
  }
}

/// What a run does on a full disk says nothing of its revision. Errors: kEnvironment.
void check_space(const std::string& folder) {
  constexpr std::uintmax_t kLeast = 64 << 10;
  std::error_code failed;
  const auto space = std::filesystem::space(folder, failed);
  const auto left = ::geteuid() == 0 ? space.free : space.available;
  if (failed || left >= kLeast) return;
  throw Error(
      ErrorCode::kEnvironment,
      "the disk is full after a run, which therefore says nothing: make room, then give the "
      "command again, which repeats no run that is stored",
      folder);
}

}  // namespace

RevisionSlot::~RevisionSlot() { remove(); }

void RevisionSlot::remove() {
  const std::lock_guard one_at_a_time(ground_.git);
  worktree_.reset();
}

void RevisionSlot::check_out(const Candidate& candidate) {
  const std::lock_guard one_at_a_time(ground_.git);
  worktree_.reset();
  // What cannot be removed is not in the way of the next.
  std::error_code ignored;
  while (std::filesystem::exists(ground_.workspace.worktree(number_, attempt_), ignored)) {
    ++attempt_;
  }
  const auto of = candidate.settings.find(kOuter);
  const bool inner = of != candidate.settings.end();
  worktree_.emplace(ground_.repository, inner ? of->second : candidate.revision,
                    ground_.workspace.worktree(number_, attempt_));
  const Submodule instead = inner ? Submodule{candidate.settings.at(kDependency),
                                              candidate.revision, candidate.settings.at(kClone)}
                                  : Submodule{};
  say_empty(ground_, fill_submodules(ground_.repository, worktree_->path(), instead));
  if (!ground_.recipe.overlay.empty()) lay_over(ground_.recipe.overlay, worktree_->path());
}

/// Checks out and builds; a measurement where that fails.
std::optional<Measurement> RevisionSlot::prepare(const Candidate& candidate, RunPlace& place) {
  revision_.clear();
  build_ = place.folder.path + "#" + std::to_string(++builds_);
  try {
    check_out(candidate);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kEnvironment) throw;
    remove();
    return Measurement{.kind = RunKind::kNoCheckout, .problem = error.what()};
  }
  place.checkout = worktree_->path();
  return build_checkout(ground_.recipe, place, ground_.workspace, ground_.interrupt);
}

Measurement RevisionSlot::measure(const Candidate& candidate, Build build,
                                  const std::string& reference) {
  const auto start = std::chrono::steady_clock::now();
  RunPlace place{.checkout = worktree_ ? worktree_->path() : "",
                 .revision = candidate.revision,
                 .reference = reference,
                 .folder = ground_.workspace.add_run(candidate.revision.substr(0, 12))};
  const bool built = build == Build::kAny && worktree_ && revision_ == candidate.revision;
  std::optional<Measurement> out = built ? std::nullopt : prepare(candidate, place);
  if (!out) {
    revision_ = ground_.recipe.build.empty() ? "" : candidate.revision;
    out = run_checkout(ground_.recipe, place, ground_.workspace, ground_.interrupt);
  }
  check_space(place.folder.path);
  check_space(std::filesystem::path(ground_.workspace.worktree(number_, attempt_)).parent_path());
  if (revision_.empty()) remove();
  out->output = place.folder.output();
  out->build = build_;
  out->date = utc_now();
  out->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return *out;
}

}  // namespace rlreplay::bisect
