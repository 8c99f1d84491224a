// Dumps in the forms of the frameworks, and hostile files, each with its expected answer.
#include <algorithm>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "format/foreign/dump_check.h"
#include "src/base/json_value.h"
#include "src/base/pipe.h"
#include "tests/foreign/support.h"
#include "tests/material.h"

namespace rlreplay::foreign {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> valid_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const bool hostile = entry.path().string().find("/hostile/") != std::string::npos;
    if (entry.path().extension() == ".pt" && !hostile) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

void check_contents(const fs::path& folder) {
  size_t count = 0;
  for (const fs::path& path : valid_files(folder)) {
    INFO(path.string());
    fs::path sidecar = path;
    const std::string expected = read_text(sidecar.replace_extension(".expected.json"));
    const std::string key = "\"root\":";
    const size_t at = expected.find(key) + key.size();
    const TorchFile file(path.string());
    CHECK(show(file) + "}\n" == expected.substr(at));
    CHECK(file.problems().empty());
    const bool run = path.string().find("/tricky/") == std::string::npos &&
                     path.string().find("/payloads/") == std::string::npos;
    if (run) CHECK(check_dump(file.tree(), file.root()).empty());
    ++count;
  }
  CHECK(count >= 90);
}

TEST_CASE("every valid and tricky file has the content of its sidecar") {
  for (const fs::path& folder : test::material_folders()) check_contents(folder / "dumps");
}

constexpr int kCodes = 100;  // exit codes above it say which class an error has

/// What a program that shows the file answers, as the exit code of a child and a line of text.
int answer(const std::string& path, int out) {
  const auto say = [&](const std::string& line) {
    return ::write(out, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  };
  try {
    const TorchFile file(path);
    std::vector<Problem> problems = file.problems();
    for (const Problem& problem : check_dump(file.tree(), file.root())) {
      problems.push_back(problem);
    }
    size_t length = 0;
    write_canonical_json(file.tree(), file.root(),
                         [&](std::string_view piece) { length += piece.size(); });
    std::string line;
    for (const Problem& problem : problems) line += "readable-but-reports-" + problem.code + "\n";
    return say(line + (problems.empty() ? "readable-but-reports-nothing\n" : "")) ? 0 : 1;
  } catch (const Error& error) {
    const bool explained = error.what()[0] != '\0' && !error.where().empty();
    // The list counts what exceeds a limit among the corrupt files.
    const ErrorCode code = error.code() == ErrorCode::kLimit ? ErrorCode::kCorrupt : error.code();
    return say(std::string(to_string(code)) + "\n") && explained ? kCodes : 1;
  }
}

struct Answer {
  int status = 0;
  long peak = 0;  // KiB
  std::string lines;
};

/// Runs `answer` in a child of at most two seconds of processor time.
Answer ask(const std::string& path, const fs::path& folder) {
  Pipe pipe = make_pipe();
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const rlimit limit{2, 2};
    ::setrlimit(RLIMIT_CPU, &limit);
    if (::chdir(folder.c_str()) != 0) ::_exit(2);
    ::_exit(answer(path, pipe.write.get()));
  }
  pipe.write.close();
  Answer result;
  char piece[4096];
  for (ssize_t n = 0; (n = ::read(pipe.read.get(), piece, sizeof(piece))) > 0;) {
    result.lines.append(piece, static_cast<size_t>(n));
  }
  rusage usage{};
  REQUIRE(::wait4(child, &result.status, 0, &usage) == child);
  result.peak = usage.ru_maxrss;
  return result;
}

void check_answers(const fs::path& folder) {
  const TempFolder scratch;
  const JsonDocument table = JsonDocument::read((folder / "hostile.json").string());
  const JsonValue files = table.root()["files"];
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string name = files.at(i)["file"].string();
    const Answer result = ask((folder / name).string(), scratch.path());
    INFO(name << " answered " << result.lines);
    REQUIRE(WIFEXITED(result.status));
    const int code = WEXITSTATUS(result.status);
    CHECK((code == 0 || code == kCodes));
    bool listed = false;
    for (size_t k = 0; k < files.at(i)["expect"].size(); ++k) {
      const std::string expected = files.at(i)["expect"].at(k).string() + "\n";
      listed = listed || result.lines.find(expected) != std::string::npos;
    }
    CHECK(listed);
    CHECK(result.peak < 256 * 1024);
  }
  CHECK(files.size() >= 120);
  CHECK(fs::is_empty(scratch.path()));
}

TEST_CASE("every hostile file is answered in a class of its list") {
  for (const fs::path& folder : test::material_folders()) {
    check_answers(folder / "dumps" / "hostile");
  }
}

}  // namespace
}  // namespace rlreplay::foreign
