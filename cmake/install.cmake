# What engines link: headers, libkvopt.a and libkvopt.so, the CMake package and the pkg-config file. Included from the top.
#
# The CMake package and the pkg-config file name everything relative to themselves, so the folder may be moved.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# Inside the package in a wheel, where python -m kvopt.config finds them; else where CMake puts such things.
if(SKBUILD)
  set(kvopt_include_destination kvopt/include)
  set(kvopt_library_destination kvopt/lib)
else()
  set(kvopt_include_destination ${CMAKE_INSTALL_INCLUDEDIR})
  set(kvopt_library_destination ${CMAKE_INSTALL_LIBDIR})
endif()
set(kvopt_cmake_destination ${kvopt_library_destination}/cmake/kvopt)
set(kvopt_pkgconfig_destination ${kvopt_library_destination}/pkgconfig)

get_target_property(kvopt_other_objects kvopt_core SOURCES)
list(FILTER kvopt_other_objects INCLUDE REGEX "TARGET_OBJECTS")
add_library(kvopt_shared SHARED $<TARGET_OBJECTS:kvopt_core> ${kvopt_other_objects})
set_target_properties(
  kvopt_shared
  PROPERTIES OUTPUT_NAME kvopt
             LINKER_LANGUAGE CXX
             INTERPROCEDURAL_OPTIMIZATION OFF
             LINK_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/csrc/capi/exports.map
)
if(NOT SKBUILD) # a wheel cannot hold links, and would hold the library three times
  set_target_properties(kvopt_shared PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
endif()
target_include_directories(kvopt_shared INTERFACE $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/csrc/include>)
target_compile_features(kvopt_shared INTERFACE cxx_std_20)
target_link_libraries(kvopt_shared PRIVATE $<BUILD_INTERFACE:kvopt_options> ${CMAKE_DL_LIBS})
# Objects carry machine code beside what link-time optimization needs; it has done its work for the extension module.
target_link_options(
  kvopt_shared PRIVATE ${kvopt_no_lto} "LINKER:--version-script=${CMAKE_CURRENT_SOURCE_DIR}/csrc/capi/exports.map"
)
add_library(kvopt::kvopt_shared ALIAS kvopt_shared)

install(
  TARGETS kvopt_core kvopt_shared
  EXPORT kvopt-targets
  ARCHIVE DESTINATION ${kvopt_library_destination}
  LIBRARY DESTINATION ${kvopt_library_destination}
  INCLUDES
  DESTINATION ${kvopt_include_destination}
)
install(
  DIRECTORY csrc/include/kvopt
  DESTINATION ${kvopt_include_destination}
  FILES_MATCHING
  PATTERN "*.hpp"
  PATTERN "*.h"
)

# A compiler of another version cannot read this one's link-time code, and fails where it meets it.
if(kvopt_lto)
  install(
    CODE "execute_process(COMMAND \"${CMAKE_STRIP}\" --strip-debug --enable-deterministic-archives
      -R .gnu.lto_* -R .gnu.debuglto_* -R .llvm.lto -N __gnu_lto_slim -N __gnu_lto_v1
      \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${kvopt_library_destination}/libkvopt.a\" COMMAND_ERROR_IS_FATAL ANY)"
  )
endif()

install(
  EXPORT kvopt-targets
  NAMESPACE kvopt::
  DESTINATION ${kvopt_cmake_destination}
)
configure_package_config_file(
  cmake/kvopt-config.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/kvopt-config.cmake
  INSTALL_DESTINATION ${kvopt_cmake_destination}
)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/kvopt-config-version.cmake COMPATIBILITY SameMinorVersion)
file(RELATIVE_PATH kvopt_prefix_from_pkgconfig /${kvopt_pkgconfig_destination} /)
file(RELATIVE_PATH kvopt_include_from_pkgconfig /${kvopt_pkgconfig_destination} /${kvopt_include_destination})
configure_file(cmake/kvopt.pc.in ${CMAKE_CURRENT_BINARY_DIR}/kvopt.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/kvopt-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/kvopt-config-version.cmake
        DESTINATION ${kvopt_cmake_destination}
)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/kvopt.pc DESTINATION ${kvopt_pkgconfig_destination})
