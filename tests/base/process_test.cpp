#include "src/base/process.h"

#include <catch2/catch.hpp>
#include <cerrno>

#include <sys/wait.h>
#include <unistd.h>

using namespace rlreplay;
using End = ProcessResult::End;
using Catch::Matchers::Contains;

namespace {

bool no_child_is_left() { return ::waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD; }

}  // namespace

TEST_CASE("a command reads its input and says its part") {
  const auto result = run_process("tr a-z A-Z; echo warning >&2; exit 3", "abc\n");
  CHECK(result.end == End::kExit);
  CHECK(result.code == 3);
  CHECK(result.output == "ABC\n");
  CHECK(result.describe() == "exited with code 3: warning");
  CHECK(run_process("cat", "").output.empty());
  CHECK(no_child_is_left());
}

TEST_CASE("more than the pipes hold goes both ways at once") {
  std::string input;
  for (int i = 0; i < 1'000'000; ++i) input += std::to_string(i) + "\n";
  const auto result = run_process("tee /dev/stderr", input);
  CHECK(result.end == End::kExit);
  CHECK(result.output == input);
  CHECK(result.error_tail.size() <= 2 * 4096 + (1 << 16));
}

TEST_CASE("a command need not read its input") {
  const std::string input(10'000'000, 'x');
  CHECK(run_process("echo 1", input).output == "1\n");
  CHECK(run_process("exec <&-; echo 2", input).output == "2\n");
}

TEST_CASE("a command that hangs is killed with all it has started") {
  const ProcessLimits limits{std::chrono::milliseconds(200), 1 << 20};
  for (const char* command : {"sleep 1000", "sleep 1000 & sleep 1000", "exec >&- 2>&-; sleep 1000",
                              "trap '' TERM; while :; do sleep 1; done"}) {
    const auto result = run_process(command, "input", limits);
    CHECK(result.end == End::kTimeout);
    CHECK_THAT(result.describe(), Contains("time limit"));
    CHECK(no_child_is_left());
  }
}

TEST_CASE("what a command leaves behind neither delays nor outlives it") {
  const auto result = run_process("sleep 1000 & echo $!", "");
  CHECK(result.end == End::kExit);
  CHECK(result.code == 0);
  // A killed orphan is gone when the system comes to it, and a zombie until its adopter reaps it.
  const std::string state = "/proc/" + std::to_string(std::stoi(result.output)) + "/status";
  const auto probe = run_process("for i in $(seq 200); do grep State " + state +
                                     " | grep -qv Z || exit 0; sleep 0.1; done; exit 1",
                                 "");
  CHECK(probe.code == 0);
}

TEST_CASE("too much output, signals and commands that do not exist") {
  const ProcessLimits limits{std::chrono::milliseconds(60000), 1 << 20};
  CHECK(run_process("yes", "", limits).end == End::kTooMuchOutput);
  const auto killed = run_process("kill -SEGV $$", "");
  CHECK(killed.end == End::kSignal);
  CHECK(killed.code == SIGSEGV);
  CHECK(run_process("rlreplay-no-such-command", "").code == 127);
  CHECK_THAT(run_process("printf 'a\\033\\377b' >&2; exit 1", "").describe(), Contains("a??b"));
  CHECK(no_child_is_left());
}
