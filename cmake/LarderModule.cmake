# larder_module(NAME LIBS ...): one library per folder from its *.cc, one test binary from its
# *_test.cc.
#   larder_module(base LIBS fmt::fmt)          -> library larder_base, test binary base_test
# Its *_concurrent_test.cc make a second binary with the label "concurrent", which TSan selects.
function(larder_module name)
  cmake_parse_arguments(ARG "" "" "LIBS;TEST_LIBS" ${ARGN})
  string(REPLACE "/" "_" target ${name})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER sources EXCLUDE REGEX "(_test|main)\\.cc$")
  if(sources)
    add_library(larder_${target} STATIC ${sources})
    target_include_directories(larder_${target} PUBLIC ${PROJECT_SOURCE_DIR}/src
      ${PROJECT_SOURCE_DIR}/include)
    target_link_libraries(larder_${target} PUBLIC ${ARG_LIBS} PRIVATE larder_flags)
  else()
    add_library(larder_${target} INTERFACE)
    target_include_directories(larder_${target} INTERFACE ${PROJECT_SOURCE_DIR}/src
      ${PROJECT_SOURCE_DIR}/include)
    target_link_libraries(larder_${target} INTERFACE ${ARG_LIBS})
  endif()
  set(concurrent ${tests})
  list(FILTER concurrent INCLUDE REGEX "_concurrent_test\\.cc$")
  list(FILTER tests EXCLUDE REGEX "_concurrent_test\\.cc$")
  if(LARDER_TESTS AND tests)
    larder_test(${target}_test SOURCES ${tests} LIBS larder_${target} ${ARG_TEST_LIBS})
  endif()
  if(LARDER_TESTS AND concurrent)
    larder_test(${target}_concurrent_test SOURCES ${concurrent} LABELS concurrent
      LIBS larder_${target} ${ARG_TEST_LIBS})
  endif()
endfunction()

# larder_test(NAME SOURCES ... LIBS ... [LABELS ...] [TIMEOUT s]): a GoogleTest binary and its
# ctest entry.
function(larder_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LIBS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} GTest::gtest GTest::gmock GTest::gtest_main
    larder_flags)
  add_test(NAME ${name} COMMAND ${name})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
endfunction()
