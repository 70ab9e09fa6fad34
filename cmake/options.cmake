# Compiler options that every target shares, as the interface library kvopt_options.
include(CheckCXXCompilerFlag)
include(CheckIPOSupported)
include(CheckLanguage)

add_library(kvopt_options INTERFACE)

# A portable baseline; code that gains from wider vectors chooses at run time.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  check_cxx_compiler_flag(-march=x86-64-v2 has_x86_64_v2)
  if(has_x86_64_v2)
    target_compile_options(kvopt_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-march=x86-64-v2>)
    set(kvopt_baseline "x86-64-v2")
  endif()
endif()
if(NOT kvopt_baseline)
  set(kvopt_baseline "${CMAKE_SYSTEM_PROCESSOR}")
endif()

set(kvopt_warnings -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor)
target_compile_options(kvopt_options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${kvopt_warnings}>")
if(KVOPT_WERROR)
  target_compile_options(kvopt_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()

if(KVOPT_SANITIZE)
  target_compile_options(kvopt_options INTERFACE -fsanitize=${KVOPT_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g)
  target_link_options(kvopt_options INTERFACE -fsanitize=${KVOPT_SANITIZE})
endif()

# Link-time optimization, where objects can carry machine code too: the static library must link without it.
set(kvopt_lto OFF)
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  check_ipo_supported(RESULT kvopt_lto LANGUAGES CXX OUTPUT lto_message)
  check_cxx_compiler_flag("-flto -ffat-lto-objects" has_fat_lto_objects)
  if(kvopt_lto AND has_fat_lto_objects)
    set(CMAKE_INTERPROCEDURAL_OPTIMIZATION ON)
    set(kvopt_fat_lto -ffat-lto-objects)
    set(kvopt_no_lto -fno-lto)
  else()
    set(kvopt_lto OFF)
  endif()
endif()

set(kvopt_cuda OFF)
if(NOT KVOPT_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "KVOPT_CUDA is '${KVOPT_CUDA}'; it must be AUTO, ON or OFF")
endif()
file(GLOB kvopt_cuda_sources CONFIGURE_DEPENDS cuda/*.cu)
if(NOT KVOPT_CUDA STREQUAL "OFF" AND kvopt_cuda_sources)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES 80 90 100)
    endif()
    enable_language(CUDA)
    set(kvopt_cuda ON)
    if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.8 AND KVOPT_CUDA STREQUAL "AUTO")
      message(STATUS "No CUDA kernels: nvcc ${CMAKE_CUDA_COMPILER_VERSION} is older than 12.8")
      set(kvopt_cuda OFF)
    endif()
  elseif(KVOPT_CUDA STREQUAL "ON")
    message(FATAL_ERROR "KVOPT_CUDA=ON, but CMake finds no CUDA compiler (set CUDACXX or CMAKE_CUDA_COMPILER)")
  endif()
endif()

target_compile_definitions(
  kvopt_options
  INTERFACE $<$<BOOL:${KVOPT_INTERNAL_CHECKS}>:KVOPT_INTERNAL_CHECKS>
)
set(kvopt_build_definitions
    KVOPT_BUILD_TYPE="${CMAKE_BUILD_TYPE}"
    KVOPT_BUILD_COMPILER="${CMAKE_CXX_COMPILER_ID}\ ${CMAKE_CXX_COMPILER_VERSION}"
    KVOPT_BUILD_BASELINE="${kvopt_baseline}"
    KVOPT_BUILD_SANITIZE="${KVOPT_SANITIZE}"
    KVOPT_BUILD_LTO=$<BOOL:${kvopt_lto}>
    KVOPT_BUILD_CUDA=$<BOOL:${kvopt_cuda}>
)
