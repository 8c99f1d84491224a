# Every library but the C library's own is linked into the programs, as the wheel's are. The preset `wheel`
# has this file included behind project(), where CMake has set what it knows of the platform.
set(RLREPLAY_STATIC ON)
set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
add_link_options(-static-libstdc++ -static-libgcc -Wl,--gc-sections)
