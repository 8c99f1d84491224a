#include "src/base/report_error.h"

#include <cstdio>
#include <new>
#include <string>

#include "src/base/error.h"
#include "src/base/json_line.h"

namespace rlreplay {
namespace {

int report(std::string_view program, bool json, const Error& error) {
  if (json) {
    JsonLine place, line;
    place.text("code", to_string(error.code())).text("message", error.what());
    place.text("where", error.where());
    line.text("schema", "rlreplay.error/1").json("error", place.str());
    std::printf("%s\n", line.str().c_str());
  }
  const std::string where = error.where().empty() ? "" : error.where() + ": ";
  std::fprintf(stderr, "%.*s: %s%s\n", static_cast<int>(program.size()), program.data(),
               where.c_str(), error.what());
  return exit_code(error.code());
}

}  // namespace

int run_reporting_errors(std::string_view program, bool json, const std::function<int()>& work) {
  try {
    const int code = work();
    if (std::fflush(stdout) != 0) {
      throw Error(ErrorCode::kEnvironment, "standard output cannot be written");
    }
    return code;
  } catch (const Error& error) {
    return report(program, json, error);
  } catch (const std::bad_alloc&) {
    return report(program, json, {ErrorCode::kEnvironment, "out of memory"});
  } catch (const std::exception& error) {
    return report(program, json, {ErrorCode::kInternal, error.what()});
  }
}

}  // namespace rlreplay
