# What `cmake --install` puts where: programs in bin; what they load in lib, where they look for it
# beside their own folder; the HDF5 plugin and the module for Python users below lib and share, and
# manual pages and completions, made of what the programs' help says, where shells look for them.
install(TARGETS rlreplay rlbisect RUNTIME DESTINATION bin COMPONENT programs)
install(TARGETS rlreplay_h5zstd LIBRARY DESTINATION lib/rlreplay/hdf5-plugin COMPONENT plugin)
add_custom_target(programs DEPENDS rlreplay rlbisect rlreplay_h5zstd)
if(RLREPLAY_TORCH)
  # libtorch itself stays where it was found.
  set_target_properties(rlreplay_torch PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS rlreplay_torch LIBRARY DESTINATION lib COMPONENT torch)
  add_dependencies(programs rlreplay_torch)
endif()
install(FILES scripts/rlreplay_h5.py DESTINATION share/rlreplay COMPONENT programs)
install(FILES README.md format/SPEC.md DESTINATION share/doc/rlreplay COMPONENT documents)
install(FILES LICENSE DESTINATION share/doc/rlreplay COMPONENT license)
install(DIRECTORY docs/ DESTINATION share/doc/rlreplay/docs COMPONENT documents
  FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "*.schema.json")

# install_manuals(COMPONENT ARGUMENT...): what scripts/make_manuals.py makes, in a component that is left
# out of a whole installation where there are arguments.
find_program(PYTHON3 python3)
function(install_manuals component)
  if(NOT PYTHON3)
    message(STATUS "no python3: manual pages and completions are not installed")
    return()
  endif()
  list(JOIN ARGN " " arguments)
  set(excluded "")
  if(arguments)
    set(excluded EXCLUDE_FROM_ALL)
  endif()
  install(CODE "
    message(STATUS \"Making manual pages and completions\")
    execute_process(COMMAND \"${PYTHON3}\" \"${CMAKE_SOURCE_DIR}/scripts/make_manuals.py\"
      \"$<TARGET_FILE:rlreplay>\" \"$<TARGET_FILE:rlbisect>\"
      \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}\" ${arguments} COMMAND_ERROR_IS_FATAL ANY)"
    COMPONENT ${component} ${excluded})
endfunction()
install_manuals(manuals)
