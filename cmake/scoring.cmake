# The scoring loops, compiled once more for each set of vector instructions that the processor may turn out to have.

# Loops over plain numbers: whether errno or floating-point traps are set matters to nobody; NaN and infinity do.
set(scoring_flags -O3 -fno-math-errno -fno-trapping-math)
set_source_files_properties(csrc/scoring/kernels.cpp PROPERTIES COMPILE_OPTIONS "${scoring_flags}")

function(kvopt_scoring_target name)
  add_library(kvopt_scoring_${name} OBJECT csrc/scoring/kernels.cpp)
  target_include_directories(kvopt_scoring_${name} PRIVATE csrc/include csrc)
  target_link_libraries(kvopt_scoring_${name} PRIVATE kvopt_options)
  target_compile_definitions(kvopt_scoring_${name} PRIVATE KVOPT_SCORING_TARGET=${name})
  target_compile_options(kvopt_scoring_${name} PRIVATE ${kvopt_fat_lto} ${ARGN})
  target_sources(kvopt_core PRIVATE $<TARGET_OBJECTS:kvopt_scoring_${name}>)
endfunction()

if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  kvopt_scoring_target(avx2 -mavx2 -mfma -mbmi -mbmi2)
  kvopt_scoring_target(avx512 -mavx512f -mavx512dq -mavx512bw -mavx512vl -mavx512cd -mfma -mbmi -mbmi2
                       -mprefer-vector-width=512)
  set_source_files_properties(csrc/scoring/dispatch.cpp PROPERTIES COMPILE_DEFINITIONS KVOPT_SCORING_X86)
endif()
