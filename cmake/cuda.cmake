# The GPU's side of scoring, where a CUDA compiler is found. Without one, nothing of it is built.
if(kvopt_cuda)
  # Older CMakes do not know how newer compilers take C++20.
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  add_library(kvopt_cuda STATIC ${kvopt_cuda_sources})
  target_include_directories(kvopt_cuda PRIVATE cuda csrc csrc/include)
  target_link_libraries(kvopt_cuda PUBLIC kvopt_core)
  set_target_properties(kvopt_cuda PROPERTIES CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON
                                              CUDA_RUNTIME_LIBRARY Static INTERPROCEDURAL_OPTIMIZATION OFF)
  # No contraction of a * b + c: the arithmetic is the host's.
  target_compile_options(kvopt_cuda PRIVATE -fmad=false)
  if(KVOPT_WERROR)
    target_compile_options(kvopt_cuda PRIVATE --Werror=all-warnings)
  endif()
endif()
