# What `cmake --install` puts where: programs in bin; what they load in lib, where they look for it
# beside their own folder; the HDF5 plugin and the module for Python users below lib and share.
install(TARGETS rlreplay rlbisect RUNTIME DESTINATION bin)
install(TARGETS rlreplay_h5zstd LIBRARY DESTINATION lib/rlreplay/hdf5-plugin)
add_custom_target(programs DEPENDS rlreplay rlbisect rlreplay_h5zstd)
if(RLREPLAY_TORCH)
  # libtorch itself stays where it was found.
  set_target_properties(rlreplay_torch PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS rlreplay_torch LIBRARY DESTINATION lib)
  add_dependencies(programs rlreplay_torch)
endif()
install(FILES scripts/rlreplay_h5.py DESTINATION share/rlreplay)
install(FILES README.md LICENSE format/SPEC.md DESTINATION share/doc/rlreplay)
install(DIRECTORY docs/ DESTINATION share/doc/rlreplay/docs FILES_MATCHING PATTERN "*.md"
  PATTERN "*.svg")
