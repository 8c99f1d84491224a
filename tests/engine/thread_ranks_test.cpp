#include "src/engine/thread_ranks.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>

#include "src/base/error.h"
#include "tests/engine/delayed_group.h"
#include "tests/engine/group_conformance.h"
#include "tests/environment.h"

using namespace rlreplay;
using namespace rlreplay::engine;
using namespace rlreplay::engine::test;

namespace {

/// What a run of ranks throws.
Error error_of(const Layout& layout, const std::function<void(const Ranks&)>& work) {
  try {
    run_thread_ranks(layout, work);
  } catch (const Error& e) {
    return e;
  }
  return Error(ErrorCode::kUsage, "nothing was thrown");
}

bool says(const Error& e, const std::string& text) {
  return std::strstr(e.what(), text.c_str()) != nullptr;
}

}  // namespace

TEST_CASE("groups of threads do what every group must") {
  for (const char* text : {"dp=1", "dp=3", "tp=8", "dp=2,tp=2,pp=2", "dp=2,cp=2,pp=2"}) {
    CAPTURE(text);
    CHECK(check_groups(run_thread_ranks, parse_layout(text)) == "");
  }
}

TEST_CASE("delays at random change nothing") {
  for (uint64_t i = 0; i < 3; ++i) {
    const uint64_t seed = rlreplay::test::seed() * 100 + i;
    CAPTURE(seed);
    CHECK(check_groups(delayed(run_thread_ranks, seed), parse_layout("dp=2,tp=2,cp=2")) == "");
  }
}

TEST_CASE("a rank that fails ends the others, and is named with what they waited for") {
  std::atomic<int> ended = 0;
  const Error e = error_of(parse_layout("dp=2,tp=2"), [&](const Ranks& r) {
    if (r.place == RankPlace{.dp = 1, .tp = 1}) {
      // The others are in their calls by then, in most runs.
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      throw Error(ErrorCode::kCorrupt, "no such luck", "sample 7");
    }
    int64_t one = 1;
    r.world.sum({&one, 1});
    ++ended;
  });
  CHECK(ended == 0);
  CHECK(e.code() == ErrorCode::kCorrupt);
  CHECK(e.where() == "sample 7");
  CHECK(says(e, "rank 3 (dp 1, tp 1): no such luck"));
  CHECK(says(e, "rank 0 (dp 0, tp 0) waits in world sum"));
}

TEST_CASE("ranks that cannot go on are told so, not left waiting") {
  const Layout two = parse_layout("dp=2");
  int64_t one = 1;
  const Error early = error_of(two, [&](const Ranks& r) {
    int64_t own = 1;
    if (r.place.dp == 0) r.dp.sum({&own, 1});
  });
  CHECK(early.code() == ErrorCode::kInternal);
  CHECK(says(early, "rank 1 (dp 1) has ended; rank 0 (dp 0) waits in dp sum"));
  const Error crossed = error_of(two, [&](const Ranks& r) {
    int64_t own = 1;
    r.dp.receive(1 - r.place.dp, std::as_writable_bytes(std::span(&own, 1)));
  });
  CHECK(says(crossed, "ranks wait and none can go on"));
  CHECK(says(crossed, "waits in dp receive from rank 1 (dp 1)"));
  const Error other = error_of(two, [&](const Ranks& r) {
    int64_t own[2] = {1, 1};
    std::byte all[16];
    if (r.place.dp == 0) r.dp.sum({own, 1});
    if (r.place.dp == 1) r.dp.gather(std::as_bytes(std::span(own, 1)), all);
  });
  CHECK(says(other, " and others in dp "));
  const Error sizes = error_of(two, [&](const Ranks& r) {
    int64_t own[2] = {1, 1};
    r.dp.sum({own, static_cast<size_t>(1 + r.place.dp)});
  });
  CHECK(says(sizes, "the ranks give different numbers of bytes"));
  const Error shorter = error_of(two, [&](const Ranks& r) {
    if (r.place.dp == 0) r.dp.send(1, std::as_bytes(std::span(&one, 1)));
    std::byte room[4];
    if (r.place.dp == 1) r.dp.receive(0, room);
  });
  CHECK(says(shorter, "a message of 8 bytes came and 4 were expected"));
}
