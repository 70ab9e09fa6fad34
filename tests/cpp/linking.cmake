# Installs a build into an empty folder, moves it, then builds and runs the examples against it: run by ctest.
cmake_minimum_required(VERSION 3.24)

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY OUTPUT_VARIABLE output COMMAND_ECHO STDOUT)
  message("${output}")
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/first)
file(RENAME ${WORK}/first ${WORK}/moved)

set(flags "-Wall -Wextra -Wpedantic -Werror")
if(SANITIZE)
  string(APPEND flags " -fsanitize=${SANITIZE} -fno-sanitize-recover=all")
endif()
run(
  ${CMAKE_COMMAND} -G ${GENERATOR} -S ${EXAMPLES} -B ${WORK}/build -DCMAKE_PREFIX_PATH=${WORK}/moved
  -DCMAKE_MAKE_PROGRAM=${MAKE_PROGRAM} -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_C_FLAGS=${flags} -DCMAKE_CXX_FLAGS=${flags}
)
run(${CMAKE_COMMAND} --build ${WORK}/build)

function(expect program said)
  run(${WORK}/build/${program} ${ARGN})
  if(NOT output MATCHES "${said}")
    message(FATAL_ERROR "${program} does not say '${said}'")
  endif()
endfunction()
expect(own_policy "fewest hits: 40 of 40")
expect(from_c "0 invariants are broken")
foreach(policy priority lru cost-aware)
  expect(engine_loop "requests in" ${policy})
endforeach()
