# The GPU's side of scoring, where a CUDA compiler is found. Without one, nothing of it is built.
if(kvopt_cuda)
  add_library(kvopt_cuda STATIC ${kvopt_cuda_sources})
  target_include_directories(kvopt_cuda PRIVATE cuda csrc csrc/include)
  target_link_libraries(kvopt_cuda PUBLIC kvopt_core)
  set_target_properties(kvopt_cuda PROPERTIES CUDA_RUNTIME_LIBRARY Static INTERPROCEDURAL_OPTIMIZATION OFF)
  # Not by CUDA_STANDARD: older CMakes do not know how newer compilers take it.
  target_compile_options(kvopt_cuda PRIVATE -std=c++20)
  # No contraction of a * b + c: the arithmetic is the host's.
  target_compile_options(kvopt_cuda PRIVATE -fmad=false)
  if(KVOPT_WERROR)
    target_compile_options(kvopt_cuda PRIVATE --Werror=all-warnings)
  endif()
endif()
