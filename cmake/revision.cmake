# Writes OUTPUT, a source file that says from which revision of SOURCE the program is built; as long
# as that does not change, the file keeps its time and nothing is built again.
# usage: cmake -DSOURCE=DIR -DOUTPUT=FILE [-DREVISION=TEXT] -P revision.cmake
set(modified false)
if(NOT REVISION)
  set(REVISION unknown)
  find_program(GIT git)
  if(GIT)
    # A tarball unpacked inside somebody's repository is not of that repository.
    execute_process(COMMAND ${GIT} -C ${SOURCE} rev-parse --show-toplevel
      OUTPUT_VARIABLE top OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    get_filename_component(source "${SOURCE}" REALPATH)
    if(top AND source STREQUAL top)
      execute_process(COMMAND ${GIT} -C ${SOURCE} rev-parse --verify -q HEAD
        OUTPUT_VARIABLE head OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
      execute_process(COMMAND ${GIT} -C ${SOURCE} --no-optional-locks status --porcelain -uno
        OUTPUT_VARIABLE changes ERROR_QUIET)
      if(head)
        set(REVISION ${head})
      endif()
      if(changes)
        set(modified true)
      endif()
    endif()
  endif()
endif()
file(CONFIGURE OUTPUT "${OUTPUT}" @ONLY CONTENT [[
#include "src/base/build_info.h"

namespace rlreplay {
const char* const kRevision = "@REVISION@";
const bool kModified = @modified@;
}  // namespace rlreplay
]])
