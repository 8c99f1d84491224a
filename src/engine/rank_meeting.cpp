#include "src/engine/rank_meeting.h"

#include <algorithm>
#include <future>
#include <map>
#include <span>
#include <sstream>
#include <thread>
#include <utility>

#include "src/base/error.h"
#include "src/engine/rank_address.h"

namespace rlreplay::engine {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr const char* kHello = "rlreplay ranks 1";
constexpr const char* kOtherJob = "rlreplay ranks of another job";
constexpr const char* kOneJob = "all ranks of a job need the same MASTER_PORT and job id";
constexpr int kLookMs = 100;     // how often rank 0 looks whether it waits in vain
constexpr int kAnswerMs = 5000;  // for one connection, and for one line of it

/// What a rank says when it connects.
struct Hello {
  std::string token, program;
  int rank = -1, size = 0;
  std::string listens;  // where later ranks connect to it

  std::string text() const {
    return std::string(kHello) + "\n" + token + "\n" + program + "\n" + std::to_string(rank) + " " +
           std::to_string(size) + "\n" + listens;
  }
  /// False for one who is no rank of this run.
  bool read(const std::string& text, const std::string& own_token) {
    std::istringstream lines(text);
    std::string hello, numbers;
    std::getline(lines, hello);
    std::getline(lines, token);
    std::getline(lines, program);
    std::getline(lines, numbers);
    std::getline(lines, listens);
    std::istringstream(numbers) >> rank >> size;
    return hello == kHello && token == own_token;
  }
};

Hello own_hello(const RankMeeting& m, std::string listens) {
  return {m.token, m.program, m.rank, m.size, std::move(listens)};
}

int milliseconds_until(Clock::time_point until) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
  return static_cast<int>(std::max<int64_t>(0, left.count()));
}

/// How many milliseconds to wait for an answer: those that are left, but no more for one that does
/// not answer than others can spare.
int answer_time(Clock::time_point until) { return std::min(kAnswerMs, milliseconds_until(until)); }

std::string patience(const RankMeeting& m) {
  return std::to_string(m.patience.count() / 1000) + " s";
}

/// Why a rank cannot take part; empty where it can.
std::string refusal(const RankMeeting& m, const Hello& hello,
                    const std::vector<Descriptor>& sockets) {
  const std::string rank = "rank " + std::to_string(hello.rank);
  if (hello.size != m.size) {
    return rank + " was started as one of " + std::to_string(hello.size) +
           " and rank 0 as one of " + std::to_string(m.size);
  }
  if (hello.program != m.program) {
    return rank + " is rlreplay " + hello.program + " and rank 0 " + m.program +
           ": give all machines the same program";
  }
  if (hello.rank <= 0 || hello.rank >= m.size)
    return rank + " is none of the ranks that are missing";
  if (sockets[static_cast<size_t>(hello.rank)]) return rank + " was started twice";
  return {};
}

/// The number of a host. A look-up cannot be stopped: one that takes longer goes on in a thread
/// that nobody waits for.
std::string number_of(const std::string& host, const RankMeeting& m, Clock::time_point until) {
  const auto look_up = m.look_up ? m.look_up : look_up_host;
  std::packaged_task<std::string()> task([look_up, host] { return look_up(host); });
  std::future<std::string> answer = task.get_future();
  std::thread(std::move(task)).detach();
  if (answer.wait_until(until) == std::future_status::ready) return answer.get();
  throw Error(ErrorCode::kEnvironment,
              "rank " + std::to_string(m.rank) + " has not learned where the host " + host +
                  " of rank 0 is within " + patience(m) +
                  ": no name server answers; give the host's number instead of its name");
}

/// The meeting's addresses, which are mostly ports of one host, by numbers of hosts.
std::vector<std::string> numeric_addresses(const RankMeeting& m, Clock::time_point until) {
  std::map<std::string, std::string> numbers{{"", ""}};
  std::vector<std::string> out;
  for (const std::string& address : m.addresses) {
    const std::string host = host_of(address);
    if (!numbers.contains(host)) numbers.emplace(host, number_of(host, m, until));
    out.push_back(with_host(address, numbers.at(host)));
  }
  return out;
}

RankListener listen_at_first(const RankMeeting& m, std::span<const std::string> addresses) {
  for (const std::string& address : addresses) {
    RankListener listener = listen_at(address);
    if (listener.socket) return listener;
  }
  throw Error(ErrorCode::kEnvironment,
              "rank 0 finds no free address: " + m.addresses.front() +
                  (m.addresses.size() > 1 ? " to " + m.addresses.back() : std::string()) +
                  " are taken");
}

/// Rank 0: waits for all, then tells each where the others listen.
std::vector<Descriptor> gather_ranks(const RankMeeting& m, std::span<const std::string> addresses,
                                     Clock::time_point until) {
  const RankListener listener = listen_at_first(m, addresses);
  const auto count = static_cast<size_t>(m.size);
  std::vector<Descriptor> sockets(count);
  std::vector<std::string> listens(count);
  bool strangers = false;
  for (int missing = m.size - 1; missing > 0;) {
    Descriptor socket = accept_from(listener, std::min(kLookMs, milliseconds_until(until)));
    const std::string lost = m.lost ? m.lost() : std::string();
    if (!lost.empty()) throw Error(ErrorCode::kEnvironment, lost);
    if (!socket && Clock::now() >= until) {
      const auto found =
          std::find_if(sockets.begin() + 1, sockets.end(), [](const Descriptor& d) { return !d; });
      throw Error(ErrorCode::kEnvironment,
                  std::to_string(missing) + " of " + std::to_string(m.size) +
                      " ranks did not come within " + patience(m) + ", the first of them rank " +
                      std::to_string(found - sockets.begin()) +
                      (strangers ? "; ranks of another job came: " + std::string(kOneJob) : ""));
    }
    std::string text;
    Hello hello;
    if (!socket || !receive_text(socket, text, answer_time(until))) continue;
    if (!hello.read(text, m.token)) {
      // A rank of another job, whose ports overlap with these, looks on at once.
      strangers |= text.starts_with(kHello) && send_text(socket, kOtherJob, answer_time(until));
      continue;
    }
    const std::string wrong = refusal(m, hello, sockets);
    if (!send_text(socket, wrong.empty() ? kHello : wrong, answer_time(until))) continue;
    if (!wrong.empty()) throw Error(ErrorCode::kUsage, wrong);
    sockets[static_cast<size_t>(hello.rank)] = std::move(socket);
    listens[static_cast<size_t>(hello.rank)] = hello.listens;
    --missing;
  }
  std::string all;
  for (const std::string& address : listens) all += address + "\n";
  for (size_t i = 1; i < count; ++i) {
    if (!send_text(sockets[i], all, kAnswerMs)) {
      throw Error(ErrorCode::kEnvironment, "rank " + std::to_string(i) + " came and went");
    }
  }
  return sockets;
}

/// The others: connects to rank 0, which may not be there yet.
Descriptor find_first(const RankMeeting& m, std::span<const std::string> addresses,
                      Clock::time_point until, RankListener& own) {
  std::string other;
  while (Clock::now() < until) {
    for (const std::string& address : addresses) {
      Descriptor socket = connect_to(address, answer_time(until));
      if (!socket) continue;
      if (!own.socket) {
        const bool is_path = address.starts_with("unix:");
        own = listen_at(is_path ? address + "." + std::to_string(m.rank) : own_address(socket, 0));
        check(static_cast<bool>(own.socket), "a rank's own address is taken");
      }
      std::string answer;
      if (!send_text(socket, own_hello(m, own.address).text(), answer_time(until))) continue;
      if (!receive_text(socket, answer, answer_time(until))) continue;  // it serves something else
      if (answer == kOtherJob) {
        other = "; rank 0 of another job answers at " + address + ": " + kOneJob;
        continue;
      }
      if (answer != kHello) throw Error(ErrorCode::kUsage, answer);
      return socket;
    }
    std::this_thread::sleep_for(50ms);
  }
  throw Error(ErrorCode::kEnvironment, "rank " + std::to_string(m.rank) +
                                           " has not found rank 0 at " + m.addresses.front() +
                                           " within " + patience(m) + other);
}

/// Each rank connects to those before it and accepts those behind it, so a pair has one connection.
/// A rank listens before it greets rank 0, which tells addresses only when all have greeted.
std::vector<Descriptor> join_ranks(const RankMeeting& m, std::span<const std::string> addresses,
                                   Clock::time_point until) {
  RankListener own;
  std::vector<Descriptor> sockets(static_cast<size_t>(m.size));
  sockets[0] = find_first(m, addresses, until, own);
  std::string all;
  if (!receive_text(sockets[0], all, milliseconds_until(until) + kAnswerMs)) {
    throw Error(ErrorCode::kEnvironment,
                "rank " + std::to_string(m.rank) + " has lost rank 0 before all ranks were there");
  }
  std::istringstream lines(all);
  for (int i = 0; i < m.rank; ++i) {
    std::string address;
    std::getline(lines, address);
    if (i == 0) continue;
    Descriptor& socket = sockets[static_cast<size_t>(i)];
    socket = connect_to(address, answer_time(until));
    if (!socket || !send_text(socket, own_hello(m, {}).text(), answer_time(until))) {
      throw Error(ErrorCode::kEnvironment, "rank " + std::to_string(m.rank) +
                                               " cannot reach rank " + std::to_string(i) + " at " +
                                               address);
    }
  }
  for (int missing = m.size - 1 - m.rank; missing > 0;) {
    Descriptor socket = accept_from(own, milliseconds_until(until));
    if (!socket && Clock::now() >= until) {
      throw Error(ErrorCode::kEnvironment, "rank " + std::to_string(m.rank) +
                                               " was not reached by all later ranks within " +
                                               patience(m));
    }
    std::string text;
    Hello hello;
    if (!socket || !receive_text(socket, text, answer_time(until)) || !hello.read(text, m.token))
      continue;
    if (hello.rank <= m.rank || hello.rank >= m.size) continue;
    sockets[static_cast<size_t>(hello.rank)] = std::move(socket);
    --missing;
  }
  return sockets;
}

}  // namespace

std::vector<Descriptor> meet(const RankMeeting& m) {
  if (m.size == 1) return std::vector<Descriptor>(1);
  const auto until = Clock::now() + m.patience;
  const std::vector<std::string> addresses = numeric_addresses(m, until);
  return m.rank == 0 ? gather_ranks(m, addresses, until) : join_ranks(m, addresses, until);
}

}  // namespace rlreplay::engine
