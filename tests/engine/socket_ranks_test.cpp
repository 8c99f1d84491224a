#include "src/engine/socket_ranks.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>
#include <future>
#include <thread>

#include <sys/socket.h>

#include "src/base/error.h"
#include "src/engine/packed.h"
#include "src/engine/rank_address.h"
#include "src/engine/rank_frames.h"
#include "src/engine/rank_mesh.h"
#include "src/engine/rank_watch.h"
#include "tests/engine/delayed_group.h"
#include "tests/engine/group_conformance.h"
#include "tests/engine/socket_run.h"
#include "tests/environment.h"

using namespace rlreplay;
using namespace rlreplay::engine;
using namespace rlreplay::engine::test;

namespace {

void run_processes(const Layout& layout, const std::function<void(const Ranks&)>& work) {
  run_forked_ranks(layout, work);
}

Error thrown_by(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& e) {
    return e;
  }
  return Error(ErrorCode::kUsage, "nothing was thrown");
}

bool tells(const Error& e, const std::string& text) {
  INFO(e.what());
  const bool out = std::strstr(e.what(), text.c_str()) != nullptr;
  CHECK(out);
  return out;
}

void sum_one(Group& group) {
  int64_t own = 1;
  group.sum({&own, 1});
}

}  // namespace

TEST_CASE("groups of processes do what every group must") {
  for (const char* text : {"dp=1", "dp=3", "tp=8", "dp=2,tp=2,pp=2", "dp=2,cp=2,pp=2"}) {
    CAPTURE(text);
    CHECK(check_groups(run_processes, parse_layout(text)) == "");
    CHECK(check_groups(run_socket_threads, parse_layout(text)) == "");
  }
}

TEST_CASE("delays at random change no bit, whatever carries it") {
  for (uint64_t i = 0; i < 3; ++i) {
    const uint64_t seed = rlreplay::test::seed() * 100 + i;
    CAPTURE(seed);
    const Layout layout = parse_layout("dp=2,tp=2,cp=2");
    CHECK(check_groups(delayed(run_processes, seed), layout) == "");
    const int64_t want = mixed_result(run_thread_ranks, layout, seed);
    CHECK(mixed_result(delayed(run_thread_ranks, seed), layout, seed) == want);
    CHECK(mixed_result(delayed(run_processes, seed), layout, seed) == want);
    CHECK(mixed_result(delayed(run_socket_threads, seed), layout, seed) == want);
  }
}

TEST_CASE("a process that fails ends the others, and is named with what they waited for") {
  const Error e = thrown_by([] {
    run_processes(parse_layout("dp=2,tp=2"), [](const Ranks& r) {
      if (r.place == RankPlace{.dp = 1, .tp = 1}) {
        throw Error(ErrorCode::kCorrupt, "no such luck", "sample 7");
      }
      sum_one(r.world);
    });
  });
  CHECK(e.code() == ErrorCode::kCorrupt);
  CHECK(e.where() == "sample 7");
  tells(e, "rank 3 (dp 1, tp 1): no such luck; rank 0 (dp 0, tp 0) ");
  tells(e, " in world sum");
}

TEST_CASE("a killed process is named by the others, with the call that they were in") {
  const Error e = thrown_by([] {
    run_processes(parse_layout("tp=2,pp=2"), [](const Ranks& r) {
      for (int i = 0; i < 10; ++i) {
        if (r.world.rank() == 2 && i == 7) ::raise(SIGKILL);
        sum_one(r.world);
      }
    });
  });
  CHECK(e.code() == ErrorCode::kEnvironment);
  tells(e, "rank 2 (tp 0, pp 1) is gone: its process has ended; rank 0 (tp 0, pp 0) ");
  tells(e, " in world sum");
}

TEST_CASE("a stopped process is reported within the limit, with who waits for whom") {
  std::vector<pid_t> ids;
  const Error e = thrown_by([&] {
    run_forked_ranks(parse_layout("dp=3"),
                     [](const Ranks& r) {
                       sum_one(r.world);
                       std::byte left{};  // a stopped rank sends no more of its sum
                       if (r.world.rank() != 2) {
                         r.world.send(2, {&left, 1});
                       } else {
                         for (int from : {0, 1}) r.world.receive(from, {&left, 1});
                         ::raise(SIGSTOP);
                       }
                       sum_one(r.dp);
                     },
                     &ids, {.silence = std::chrono::milliseconds(1500)});
  });
  CHECK(e.code() == ErrorCode::kEnvironment);
  tells(e, "rank 2 (dp 2) has been silent for 1500 ms: its process is stopped");
  tells(e, "rank 0 (dp 0) waits in dp sum for rank ");
}

TEST_CASE("a rank that computes for longer than the limit is not taken for stopped") {
  run_forked_ranks(parse_layout("dp=2"),
                   [](const Ranks& r) {
                     if (r.world.rank() == 1)
                       std::this_thread::sleep_for(std::chrono::milliseconds(1500));
                     sum_one(r.dp);
                   },
                   nullptr, {.silence = std::chrono::milliseconds(1000)});
}

TEST_CASE("processes that cannot go on are told so, not left waiting") {
  const Layout two = parse_layout("dp=2");
  const auto error_of_two = [&](const std::function<void(const Ranks&)>& work) {
    return thrown_by([&] { run_processes(two, work); });
  };
  tells(error_of_two([](const Ranks& r) {
          if (r.place.dp == 0) sum_one(r.dp);
        }),
        "rank 1 (dp 1) has ended; rank 0 (dp 0) waits in dp sum");
  tells(error_of_two([](const Ranks& r) {
          int64_t own = 1;
          r.dp.receive(1 - r.place.dp, std::as_writable_bytes(std::span(&own, 1)));
        }),
        "ranks wait and none can go on: rank 0 (dp 0) waits in dp receive for rank 1 (dp 1)");
  tells(error_of_two([](const Ranks& r) {
          int64_t own[2] = {1, 1};
          std::byte all[16];
          if (r.place.dp == 0) r.dp.sum({own, 1});
          if (r.place.dp == 1) r.dp.gather(std::as_bytes(std::span(own, 1)), all);
        }),
        " is in dp ");
  tells(error_of_two([](const Ranks& r) {
          int64_t own[2] = {1, 1};
          r.dp.sum({own, static_cast<size_t>(1 + r.place.dp)});
        }),
        " were expected");
}

TEST_CASE("a state that no rank can be in is a fault of the rank that sent it") {
  const auto said = [](const std::function<void(RankState&)>& change) {
    const TemporaryFolder folder("rlreplay-ranks");
    std::vector<Descriptor> sockets;
    std::thread thread([&] { sockets = meet(meeting_in(folder.path(), 1, 2)); });
    std::vector<Descriptor> own = meet(meeting_in(folder.path(), 0, 2));
    thread.join();
    RankMesh mesh(0, std::move(own), std::chrono::seconds(5));
    const Layout layout = parse_layout("dp=2");
    mesh.begin(layout, std::chrono::seconds(5));
    RankState state;
    change(state);
    Packer packer;
    const std::vector<std::byte> bytes = packer.add(state).take();
    FrameHeader header{.kind = FrameHeader::Kind::kState};
    header.size = bytes.size();
    REQUIRE(::send(sockets[0].get(), &header, sizeof header, 0) == sizeof header);
    REQUIRE(::send(sockets[0].get(), bytes.data(), bytes.size(), 0) == std::ssize(bytes));
    const SocketRanks ranks(mesh, layout);
    return thrown_by([&] { sum_one(ranks.ranks().world); });
  };
  const auto set = [](auto& field, uint8_t value) { std::memcpy(&field, &value, 1); };
  for (const auto& change : std::vector<std::function<void(RankState&)>>{
           [&](RankState& s) { set(s.interrupted, 2); },
           [&](RankState& s) { set(s.interrupted, 255); },
           [&](RankState& s) { set(s.call.group, kGroupCount); },
           [&](RankState& s) { set(s.call.kind, kRankCallKinds); },
           [](RankState& s) { s.waits_for = 2; }, [](RankState& s) { s.waits_for = -2; }}) {
    tells(said(change), "rank 1 (dp 1) sent a state that no rank can be in");
  }
  tells(said([](RankState& s) { s.interrupted = 1; }), "rank 1 (dp 1) has been silent");
}

TEST_CASE("ranks that do not go together are refused when they meet") {
  const auto refusal = [](const std::function<void(RankMeeting&)>& change) {
    const TemporaryFolder folder("rlreplay-ranks");
    RankMeeting first = meeting_in(folder.path(), 0, 2), second = meeting_in(folder.path(), 1, 2);
    first.patience = second.patience = std::chrono::seconds(1);
    change(second);
    Error other(ErrorCode::kUsage, "");
    std::thread thread([&] { other = thrown_by([&] { meet(second); }); });
    const Error own = thrown_by([&] { meet(first); });
    thread.join();
    return own;
  };
  tells(refusal([](RankMeeting& m) { m.program = "another"; }),
        "rank 1 is rlreplay another and rank 0 test: give all machines the same program");
  tells(refusal([](RankMeeting& m) { m.size = 3; }),
        "rank 1 was started as one of 3 and rank 0 as one of 2");
  tells(refusal([](RankMeeting& m) { m.token = "guessed"; }),
        "1 of 2 ranks did not come within 1 s, the first of them rank 1");
}

TEST_CASE("a name server that does not answer is given up within the meeting's patience") {
  std::promise<void> end;
  RankMeeting m;
  m.size = 2;
  m.patience = std::chrono::seconds(1);
  m.addresses = {"trainer-0:29501", "trainer-0:29502"};
  m.look_up = [answer = std::shared_future<void>(end.get_future())](const std::string&) {
    answer.wait();
    return std::string("127.0.0.1");
  };
  for (m.rank = 0; m.rank < 2; ++m.rank) {
    tells(thrown_by([&] { meet(m); }),
          "rank " + std::to_string(m.rank) +
              " has not learned where the host trainer-0 of rank 0 is within 1 s: no name server");
  }
  end.set_value();
}

TEST_CASE("ranks meet by the name of a host, which each looks up once") {
  std::string address = listen_at("127.0.0.1:0").address;  // free again
  address = with_host(address, "trainer-0");
  std::vector<std::string> looked(2);
  std::vector<size_t> sockets(2);
  const auto meet_as = [&](size_t rank) {
    RankMeeting m;
    m.rank = static_cast<int>(rank);
    m.size = 2;
    m.patience = std::chrono::seconds(20);
    m.addresses = {address, address};
    m.look_up = [&looked, rank](const std::string& host) {
      looked[rank] += host;
      return std::string("127.0.0.1");
    };
    sockets[rank] = meet(m).size();
  };
  std::thread second([&] { meet_as(1); });
  meet_as(0);
  second.join();
  CHECK(sockets == std::vector<size_t>{2, 2});
  CHECK(looked == std::vector<std::string>{"trainer-0", "trainer-0"});
}

TEST_CASE("the host of an address is found, and another put in its place") {
  CHECK(look_up_host("127.0.0.1") == "127.0.0.1");
  CHECK(look_up_host("::1") == "::1");
  CHECK(with_host("trainer-0:5", "::1") == "[::1]:5");
  CHECK(host_of("[::1]:5") == "::1");
  CHECK(with_host("unix:@a:5", "::1") == "unix:@a:5");
}

TEST_CASE("a rank that meets hosts that are silent gives up within its patience") {
  // Of half of them nobody accepts a connection either. One wait at each outlasts the test's limit.
  std::vector<RankListener> silent;
  std::vector<Descriptor> fill;
  RankMeeting m;
  m.rank = 1;
  m.size = 2;
  m.patience = std::chrono::seconds(1);
  for (int i = 0; i < 200; ++i) {
    silent.push_back(listen_at("127.0.0.1:0"));
    m.addresses.push_back(silent.back().address);
    if (i % 2 == 0) continue;
    ::listen(silent.back().socket.get(), 0);
    while (Descriptor one = connect_to(m.addresses.back(), 0)) fill.push_back(std::move(one));
  }
  tells(thrown_by([&] { meet(m); }),
        "rank 1 has not found rank 0 at " + m.addresses.front() + " within 1 s");
}
