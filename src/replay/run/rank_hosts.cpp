#include "src/replay/run/rank_hosts.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <iostream>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "src/base/child_process.h"
#include "src/base/error.h"
#include "src/base/interrupt.h"
#include "src/base/number_text.h"
#include "src/base/pipe.h"
#include "src/base/process.h"
#include "src/base/terminal.h"
#include "src/base/thread_pool.h"
#include "src/engine/rank_mesh.h"
#include "src/engine/serve_rank.h"

namespace rlreplay::replay {
namespace {

using namespace std::chrono_literals;

constexpr auto kFarewell = 3s;  // then a rank that does not end is killed

/// 32 hexadecimal digits that nobody can guess.
std::string random_token() {
  std::random_device device;
  std::string out;
  for (int i = 0; i < 4; ++i) out += hex(device(), 8);
  return out;
}

/// What a rank prints, line by line, with its name in front.
class PrefixedOutput {
 public:
  PrefixedOutput(std::string prefix, Descriptor from)
      : prefix_(std::move(prefix)), from_(std::move(from)) {
    thread_ = start_thread([this] { copy(); });
  }
  ~PrefixedOutput() { thread_.join(); }

 private:
  void copy() {
    std::string line;
    std::array<char, 4096> room;
    for (ssize_t n; (n = ::read(from_.get(), room.data(), room.size())) > 0;) {
      for (const char c : std::string_view(room.data(), static_cast<size_t>(n))) {
        if (c != '\n') line += c;
        if (c == '\n' || line.size() == room.size()) print(line);
      }
    }
    if (!line.empty()) print(line);
  }
  void print(std::string& line) const {
    std::cerr << prefix_ + ": " + terminal_text(line) + "\n";
    line.clear();
  }

  const std::string prefix_;
  const Descriptor from_;
  std::thread thread_;
};

std::string how_ended(int status) {
  if (WIFSIGNALED(status)) {
    return "killed by signal " + std::to_string(WTERMSIG(status)) + " (" +
           ::strsignal(WTERMSIG(status)) + ")";
  }
  return "with exit code " + std::to_string(WEXITSTATUS(status));
}

Command command_of(const LaunchedRank& rank) {
  return {.arguments = {"/proc/self/exe", "rank"}, .environment = variables_of(rank)};
}

/// A rank that is a child of this process; ended and reaped with the object.
class RankProcess {
 public:
  RankProcess(const LaunchedRank& rank, const std::string& name)
      : RankProcess(rank, name, make_pipe()) {}
  /// Gives it a moment to end by itself. It is killed before the thread that reads what it says is
  /// waited for.
  ~RankProcess() {
    const auto until = std::chrono::steady_clock::now() + kFarewell;
    while (!ended() && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(2ms);
    process_.send(SIGKILL);
  }
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  /// How it ended, if it has.
  std::optional<std::string> ended() {
    const auto status = process_.take_status();
    return status ? std::optional(how_ended(*status)) : std::nullopt;
  }

 private:
  RankProcess(const LaunchedRank& rank, const std::string& name, Pipe said)
      : process_(command_of(rank), {{-1, said.write.get(), said.write.get()}, false, SIGKILL}),
        output_(name, std::move(said.read)) {}

  ChildProcess process_;
  PrefixedOutput output_;
};

/// All ranks of a layout but this process, and the way to them.
class RankProcesses {
 public:
  RankProcesses(const Layout& layout, std::chrono::milliseconds silence) : layout_(layout) {
    LaunchedRank self;
    self.launcher = "rlreplay";
    self.size = self.local_size = layout.ranks();
    self.token = random_token();
    self.addresses = {"unix:@rlreplay-" + std::to_string(::getpid()) + "-" + random_token()};
    for (int i = 1; i < self.size; ++i) {
      LaunchedRank other = self;
      other.rank = i;
      processes_.push_back(std::make_unique<RankProcess>(other, rank_name(layout, i)));
    }
    engine::RankMeeting meeting = self.meeting();
    meeting.lost = [this] { return lost(); };
    mesh_.emplace(0, engine::meet(meeting), silence);
  }

  ~RankProcesses() {
    try {
      if (mesh_) engine::dismiss_ranks(*mesh_);
    } catch (const Error&) {  // they have failed, which was said
    }
  }

  engine::RankMesh& mesh() { return *mesh_; }

 private:
  std::string lost() {
    for (size_t i = 0; i < processes_.size(); ++i) {
      const auto how = processes_[i]->ended();
      if (!how) continue;
      return rank_name(layout_, static_cast<int>(i) + 1) + " ended before it took part, " + *how;
    }
    return {};
  }

  const Layout layout_;
  std::vector<std::unique_ptr<RankProcess>> processes_;
  std::optional<engine::RankMesh> mesh_;  // ends before they do
};

std::chrono::milliseconds silence_of(const RunOptions& options) {
  return std::chrono::milliseconds(options.rank_timeout * 1000);
}

std::unique_ptr<engine::RankHost> local_ranks(const RunOptions& options) {
  if (options.ranks_as != "processes") return nullptr;
  return std::make_unique<LocalRanks>(silence_of(options));
}

}  // namespace

int LocalRanks::threads_of_rank(const Layout& layout, int threads) const {
  return std::max(1, threads / layout.ranks());
}

std::shared_ptr<engine::RankMesh> LocalRanks::start(const Layout& layout) {
  auto processes = std::make_shared<RankProcesses>(layout, silence_);
  processes->mesh().begin(layout, silence_);
  return {processes, &processes->mesh()};
}

LaunchedRanks::~LaunchedRanks() {
  try {
    if (mesh_) engine::dismiss_ranks(*mesh_);
  } catch (const Error&) {  // they have failed, which was said
  }
}

void LaunchedRanks::check_layout(const Layout& layout) const {
  if (layout.ranks() == self_.size) return;
  throw Error(ErrorCode::kUsage, self_.launcher + " started " + std::to_string(self_.size) +
                                     " ranks and --layout " + to_string(layout) + " has " +
                                     std::to_string(layout.ranks()) +
                                     ": give a layout of as many, or start as many; a verb without "
                                     "--layout is started once, without the launcher's variables");
}

int LaunchedRanks::threads_of_rank(const Layout&, int threads) const {
  return std::max(1, threads / self_.local_size);
}

std::shared_ptr<engine::RankMesh> LaunchedRanks::start(const Layout& layout) {
  check_layout(layout);
  if (!mesh_) {
    mesh_ = std::make_shared<engine::RankMesh>(0, engine::meet(self_.meeting()), silence_);
    mesh_->tell_interrupt(interrupt_is_pending);
  }
  mesh_->begin(layout, silence_);
  return mesh_;
}

std::unique_ptr<engine::RankHost> own_rank_host(const RunOptions& options) {
  check_first_process(own_environment());
  return local_ranks(options);
}

std::unique_ptr<engine::RankHost> rank_host(const RunOptions& options) {
  if (auto self = launched_rank()) {
    return std::make_unique<LaunchedRanks>(*self, silence_of(options));
  }
  return local_ranks(options);
}

}  // namespace rlreplay::replay
