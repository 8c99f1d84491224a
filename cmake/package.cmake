# The .deb, made by `cpack` or scripts/package: programs, manual pages, completions, the HDF5 plugin where
# Debian's HDF5 looks for it, and documents as Debian's policy has them. Without the torch kernel set,
# whose libtorch is no package of Debian's.
# A package must name a contact, and there is no person or host to name: RFC 2606 keeps the domain .invalid
# for addresses that reach nobody. (Of root and of localhost lintian says that they are no contact.)
set(RLREPLAY_MAINTAINER "rlreplay developers <noreply@rlreplay.invalid>")
string(TIMESTAMP RLREPLAY_PACKAGED "%a, %d %b %Y %H:%M:%S +0000" UTC)
set(debian ${CMAKE_BINARY_DIR}/debian)
configure_file(cmake/debian/changelog.in ${debian}/changelog @ONLY)

set(doc share/doc/rlreplay)
install(TARGETS rlreplay_h5zstd COMPONENT debian EXCLUDE_FROM_ALL
  LIBRARY DESTINATION lib/${CMAKE_LIBRARY_ARCHITECTURE}/hdf5/serial/plugins)
install(FILES cmake/debian/copyright DESTINATION ${doc} COMPONENT debian EXCLUDE_FROM_ALL)
function(install_compressed file name)
  install(CODE "
    execute_process(COMMAND gzip -9nc \"${file}\" COMMAND_ERROR_IS_FATAL ANY
      OUTPUT_FILE \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${doc}/${name}\")"
    COMPONENT debian EXCLUDE_FROM_ALL)
endfunction()
install_compressed(${CMAKE_SOURCE_DIR}/CHANGELOG.md changelog.gz)
install_compressed(${debian}/changelog changelog.Debian.gz)
install_manuals(debian --debian)

set(CPACK_GENERATOR DEB)
set(CPACK_COMPONENTS_ALL programs documents debian)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_NAME rlreplay)
set(CPACK_PACKAGE_CONTACT "${RLREPLAY_MAINTAINER}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "deterministic replay and bisection of RL runs of language models")
set(CPACK_PACKAGE_DESCRIPTION "\
rlreplay records a run of reinforcement learning on a language model, trains
on the recorded rollouts again and compares every number to the last bit,
whatever the micro-batch, threads or SIMD width. Where two runs part, it names
the commit, step, layer, operation, tensor and element.
.
It also reads, checks and compares the debug dumps of slime, Miles and Relax.
It runs on the CPU only.")
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS git)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "hdf5-tools, python3-h5py")
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE
  GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
include(CPack)
