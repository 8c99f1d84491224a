# Finds libtorch 2.9 or newer and defines the target `libtorch` (headers as system headers,
# libtorch_cpu and libc10). In this order: -DTORCH_DIR=, an importable torch, the cache folder of
# scripts/fetch_torch.
set(TORCH_DIR "" CACHE PATH "A torch package, or a folder with its lib/ and include/")

function(torch_version folder out)
  set(version "")
  foreach(header headeronly/version.h csrc/api/include/torch/version.h)
    set(path ${folder}/include/torch/${header})
    if(NOT version AND EXISTS ${path})
      file(STRINGS ${path} lines REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
      string(REGEX MATCHALL "[0-9]+" numbers "${lines}")
      list(JOIN numbers "." version)
    endif()
  endforeach()
  set(${out} "${version}" PARENT_SCOPE)
endfunction()

function(find_libtorch out)
  if(TORCH_DIR)
    set(${out} ${TORCH_DIR} PARENT_SCOPE)
    return()
  endif()
  find_program(PYTHON3 python3 REQUIRED)
  execute_process(
    COMMAND ${PYTHON3} -c "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0])"
    OUTPUT_VARIABLE folder OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(folder)
    torch_version(${folder} version)
    if(version VERSION_GREATER_EQUAL 2.9)
      set(${out} ${folder} PARENT_SCOPE)
      return()
    endif()
    message(STATUS "libtorch: ${folder} is not used, it is older than 2.9")
  endif()
  execute_process(COMMAND ${PYTHON3} ${CMAKE_SOURCE_DIR}/scripts/fetch_torch --print
    OUTPUT_VARIABLE folder OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  set(${out} ${folder}/torch PARENT_SCOPE)
endfunction()

find_libtorch(folder)
torch_version(${folder} version)
if(NOT EXISTS ${folder}/lib/libtorch_cpu.so OR NOT version VERSION_GREATER_EQUAL 2.9)
  message(FATAL_ERROR "no libtorch of 2.9 or newer in ${folder}: run scripts/fetch_torch, or name one "
    "with -DTORCH_DIR=, or build without it (-DRLREPLAY_TORCH=OFF)")
endif()
message(STATUS "libtorch: ${version}, ${folder}")
set(RLREPLAY_TORCH_VERSION ${version})

add_library(libtorch INTERFACE IMPORTED GLOBAL)
target_include_directories(libtorch SYSTEM INTERFACE ${folder}/include)
target_link_libraries(libtorch INTERFACE ${folder}/lib/libtorch_cpu.so ${folder}/lib/libc10.so)
# A TORCH_DIR without the CUDA libraries beside it finds them in the toolkit: DT_RPATH, unlike
# DT_RUNPATH, also serves the libraries that libtorch_cpu.so loads.
if(EXISTS /usr/local/cuda/lib64)
  target_link_options(libtorch INTERFACE
    -Wl,--disable-new-dtags,-rpath,/usr/local/cuda/lib64,-rpath-link,/usr/local/cuda/lib64)
endif()
