#include "src/base/process.h"

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/bounded_log.h"
#include "src/base/child_process.h"
#include "src/base/error.h"
#include "src/base/interrupt.h"
#include "tests/temporary_folder.h"

using namespace rlreplay;
using End = ProcessResult::End;
using Catch::Matchers::Contains;

namespace {

ProcessResult run_shell(const std::string& text, std::string_view input,
                        const ProcessLimits& limits = {}) {
  return run_process(shell_command(text), input, limits);
}

/// 0 until a shell has written it, with its newline.
pid_t pid_in(const std::string& path) {
  std::ifstream file(path);
  pid_t id = 0;
  return file >> id && file.get() == '\n' ? id : 0;
}

/// Whether a process runs: one that has ended and that nobody has reaped yet does not.
bool is_alive(pid_t id) {
  std::ifstream file("/proc/" + std::to_string(id) + "/stat");
  std::string word;
  while (file >> word && word.back() != ')') {
  }
  return file >> word && word != "Z";
}

bool no_child_is_left() { return ::waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD; }

}  // namespace

TEST_CASE("a command reads its input and says its part") {
  const auto result = run_shell("tr a-z A-Z; echo warning >&2; exit 3", "abc\n");
  CHECK(result.end == End::kExit);
  CHECK(result.code == 3);
  CHECK(result.output == "ABC\n");
  CHECK(result.describe() == "exited with code 3: warning");
  CHECK(run_shell("printf 'one \\n\\n\\ttwo\\r\\nthree\\n' >&2; exit 3", "").describe() ==
        "exited with code 3: one | two | three");
  CHECK(run_shell("cat", "").output.empty());
  CHECK(no_child_is_left());
}

TEST_CASE("more than the pipes hold goes both ways at once") {
  std::string input;
  for (int i = 0; i < 1'000'000; ++i) input += std::to_string(i) + "\n";
  const auto result = run_shell("tee /dev/stderr", input);
  CHECK(result.end == End::kExit);
  CHECK(result.output == input);
  CHECK(result.error_tail.size() <= 2 * 4096 + (1 << 16));
}

TEST_CASE("a command need not read its input") {
  const std::string input(10'000'000, 'x');
  CHECK(run_shell("echo 1", input).output == "1\n");
  CHECK(run_shell("exec <&-; echo 2", input).output == "2\n");
}

TEST_CASE("a command that hangs is killed with all it has started") {
  const ProcessLimits limits{std::chrono::milliseconds(200), 1 << 20};
  for (const char* command : {"sleep 1000", "sleep 1000 & sleep 1000", "exec >&- 2>&-; sleep 1000",
                              "trap '' TERM; while :; do sleep 1; done"}) {
    const auto result = run_shell(command, "input", limits);
    CHECK(result.end == End::kTimeout);
    CHECK_THAT(result.describe(), Contains("time limit"));
    CHECK(no_child_is_left());
  }
}

TEST_CASE("what a command leaves behind neither delays nor outlives it") {
  const auto result = run_shell("sleep 1000 & echo $!", "");
  CHECK(result.end == End::kExit);
  CHECK(result.code == 0);
  // A killed orphan is gone when the system comes to it, and a zombie until its adopter reaps it.
  const std::string state = "/proc/" + std::to_string(std::stoi(result.output)) + "/status";
  const auto probe = run_shell("for i in $(seq 200); do grep State " + state +
                                   " | grep -qv Z || exit 0; sleep 0.1; done; exit 1",
                               "");
  CHECK(probe.code == 0);
}

TEST_CASE("too much output, signals and commands that do not exist") {
  const ProcessLimits limits{std::chrono::milliseconds(60000), 1 << 20};
  CHECK(run_shell("yes", "", limits).end == End::kTooMuchOutput);
  const auto killed = run_shell("kill -SEGV $$", "");
  CHECK(killed.end == End::kSignal);
  CHECK(killed.code == SIGSEGV);
  CHECK(run_shell("rlreplay-no-such-command", "").code == 127);
  CHECK_THAT(run_shell("printf 'a\\033\\377b' >&2; exit 1", "").describe(), Contains("a??b"));
  CHECK(no_child_is_left());
}

TEST_CASE("a program gets its arguments, folder and environment as they are") {
  ::setenv("RLREPLAY_TEST_KEPT", "kept", 1);
  ::setenv("RLREPLAY_TEST_GONE", "gone", 1);
  ::setenv("RLREPLAY_TEST_NEW", "old", 1);
  Command command{{"sh", "-c", "pwd; echo \"$1\"; env | grep RLREPLAY_TEST | sort", "sh", "a  $b"}};
  command.folder = "/";
  command.environment = {{"RLREPLAY_TEST_GONE", std::nullopt}, {"RLREPLAY_TEST_NEW", "new=1"}};
  CHECK(run_process(command, "").output ==
        "/\na  $b\nRLREPLAY_TEST_KEPT=kept\nRLREPLAY_TEST_NEW=new=1\n");
  CHECK_THROWS_AS(run_process(Command{{"rlreplay-no-such-program"}}, ""), Error);
  command.folder = "/no/such/folder";
  CHECK_THROWS_AS(run_process(command, ""), Error);
}

TEST_CASE("a log takes both streams in the order of their writes") {
  char log[] = "/tmp/rlreplay-process-test-XXXXXX";
  ::close(::mkstemp(log));
  Command command = shell_command("echo one; echo two >&2; echo three; exit 4");
  command.log = log;
  const auto result = run_process(command, "");
  CHECK(result.code == 4);
  CHECK(result.output.empty());
  CHECK(result.error_tail == "one\ntwo\nthree\n");
  command = shell_command("yes | head -c 3000000; printf end");
  command.log = log;
  const auto tail = run_process(command, "").error_tail;
  CHECK(tail.size() == 1 << 20);
  CHECK(tail.ends_with("y\ny\nend"));
  ::unlink(log);
  command.log = "/no/such/folder/log";
  CHECK_THROWS_AS(run_process(command, ""), Error);
}

TEST_CASE("a program is stopped, with all it has started, when it is told to") {
  Interrupt interrupt;
  CHECK(interrupt.signal() == 0);
  ProcessLimits limits;
  limits.stop_fd = interrupt.fd();
  CHECK(run_shell("true", "", limits).end == End::kExit);
  const std::string kill = "kill -TERM " + std::to_string(::getpid());
  CHECK(run_shell(kill + "; sleep 1000 & sleep 1000", "", limits).end == End::kStopped);
  CHECK(no_child_is_left());
  CHECK(interrupt.signal() == SIGTERM);
  CHECK(run_shell("sleep 1000", "", limits).end == End::kStopped);  // it stays told
  CHECK(run_shell("true", "").end == End::kExit);  // what is still to be done can be done
}

TEST_CASE("a process ends with its owner, with the group that it leads") {
  const test::TemporaryFolder folder;
  const std::string started = folder / "started";
  for (const bool leads : {false, true}) {
    CAPTURE(leads);
    pid_t id = -1;
    try {
      const std::string also =
          leads ? "sleep 1000 & echo $! > " + started + "; wait" : "exec sleep 1000";
      ChildProcess first(shell_command(also), {.own_group = leads});
      const ChildProcess child(std::move(first));
      id = child.id();
      CHECK(!child.has_ended());
      while (leads && pid_in(started) == 0) ::usleep(1000);
      throw Error(ErrorCode::kEnvironment, "no memory");
    } catch (const Error&) {  // what is looked at is what it leaves
    }
    CHECK(::kill(id, 0) != 0);
    while (leads && is_alive(pid_in(started))) ::usleep(1000);  // or for ever
    CHECK(no_child_is_left());
  }
}

TEST_CASE("a process is reaped once") {
  ChildProcess child({{"sh", "-c", "exit 7"}}, {});
  const int status = child.wait();
  CHECK(WEXITSTATUS(status) == 7);
  CHECK(child.take_status() == status);
  CHECK(child.wait() == status);
  CHECK(child.has_ended());
  CHECK(no_child_is_left());
}

TEST_CASE("an interrupt of the past is not one of the future") {
  {
    const Interrupt first;
    ::kill(::getpid(), SIGINT);
    CHECK(first.signal() == SIGINT);
  }
  CHECK(Interrupt().signal() == 0);
}

TEST_CASE("the middle of a long log is given back while it is written to") {
  const test::TemporaryFolder folder;
  const std::string path = folder / "log";
  std::ofstream file(path, std::ios::binary);
  file << std::string(40 << 20, 'x') << std::flush;
  BoundedLog log(path);
  log.free_middle();
  struct stat info {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  CHECK(info.st_size == 40 << 20);
  CHECK(info.st_blocks * 512 < 4 << 20);  // file systems of Linux can, tmpfs too
  file << "the end" << std::flush;
  log.cut_middle();
  std::ifstream kept(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(kept), {});
  CHECK(text.size() < (2 << 20) + 100);
  CHECK(text.find('\0') == text.npos);
  CHECK(text.ends_with("the end"));
}
