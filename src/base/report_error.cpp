#include "src/base/report_error.h"

#include <cstdio>
#include <filesystem>
#include <iostream>
#include <new>
#include <string>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "src/base/json_line.h"
#include "src/base/printable.h"
#include "src/base/terminal.h"

namespace rlreplay {
namespace {

/// Who stops reading, as head does, wanted no more.
bool reader_is_gone() {
  pollfd output{STDOUT_FILENO, POLLOUT, 0};
  return ::poll(&output, 1, 0) > 0 && (output.revents & POLLERR) != 0;
}

/// Files that are opened must not get the numbers of standard streams that are closed: reading or
/// writing those fails, as it did before.
void hold_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0) continue;
    ::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

/// Reading ends alike at the end and at an error.
void check_input() {
  if (std::ferror(stdin) == 0) return;
  throw Error(ErrorCode::kEnvironment,
              "standard input could not be read to its end: is it a folder, or closed?");
}

/// A write may have failed long ago: what then is flushed says nothing of it.
void check_output() {
  const bool flushed = static_cast<bool>(std::cout.flush()) && std::fflush(stdout) == 0;
  if ((flushed && std::ferror(stdout) == 0) || reader_is_gone()) return;
  throw Error(ErrorCode::kEnvironment,
              "standard output could not be written to its end: is its disk full?");
}

std::string members(const Error& error) {
  constexpr size_t kLongestPath = 4096;
  const std::string& where = error.where();
  JsonLine out;
  out.text("code", to_string(error.code())).text("message", shortened(error.what()));
  out.text("where", where.size() <= kLongestPath ? where : shortened(where));
  if (const auto& breach = error.breach()) {
    out.text("rule", breach->rule).text("dataset", breach->dataset);
    breach->offset ? out.integer("offset", static_cast<int64_t>(*breach->offset))
                   : out.null("offset");
  }
  return out.str();
}

std::string sentence(const Error& error) {
  std::string out = error.where().empty() ? "" : shortened(error.where()) + ": ";
  out += shortened(error.what());
  if (const auto& breach = error.breach()) {
    out += " (rule " + breach->rule;
    out += breach->offset ? ", at byte " + std::to_string(*breach->offset) + ")" : ")";
  }
  return out;
}

}  // namespace

int report_error(std::string_view program, bool json, const Error& error) {
  if (json) {
    const auto line = JsonLine().text("schema", "rlreplay.error/1").json("error", members(error));
    std::printf("%s\n", terminal_text(line.str()).c_str());
  }
  std::fprintf(stderr, "%.*s: %s\n", static_cast<int>(program.size()), program.data(),
               terminal_text(sentence(error)).c_str());
  return exit_code(error.code());
}

int run_reporting_errors(std::string_view program, bool json, const std::function<int()>& work) {
  hold_standard_streams();
  ::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of the write
  const TerminalFilter output(std::cout, stdout), messages(std::cerr, stderr);
  try {
    const int code = work();
    check_input();
    check_output();
    return code;
  } catch (const Error& error) {
    return report_error(program, json, error);
  } catch (const std::bad_alloc&) {
    return report_error(program, json, {ErrorCode::kEnvironment, "out of memory"});
  } catch (const std::filesystem::filesystem_error& error) {
    return report_error(program, json,
                        {ErrorCode::kEnvironment, "cannot look at it: " + error.code().message(),
                         error.path1().string()});
  } catch (const std::exception& error) {
    return report_error(program, json, {ErrorCode::kInternal, error.what()});
  }
}

}  // namespace rlreplay
