# Build-wide switches. Presets in CMakePresets.json set them; nothing else should need to.
option(LARDER_TESTS "build the tests" ON)
option(LARDER_FUZZ "build the libFuzzer targets (needs clang)" OFF)
option(LARDER_VS_ROCKSDB "build bench/vs_rocksdb (needs librocksdb-dev)" OFF)
set(LARDER_SANITIZE "" CACHE STRING "value for -fsanitize=, or empty")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

# Warnings are errors for our own targets only: larder_flags is linked by every one of them.
add_library(larder_flags INTERFACE)
target_compile_options(larder_flags INTERFACE -Wall -Wextra -Wpedantic -Werror -Wshadow
  -Wnon-virtual-dtor -Woverloaded-virtual -Wno-unused-parameter -fno-omit-frame-pointer)
if(LARDER_SANITIZE)
  add_compile_options(-fsanitize=${LARDER_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${LARDER_SANITIZE})
  if(LARDER_SANITIZE MATCHES "undefined")
    # The check of a virtual call asks the kernel through a pipe whether the object can be read. In
    # a node without a free descriptor, which a test makes, it cannot, and reports a broken object.
    add_compile_options(-fno-sanitize=vptr)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # A false alarm inside libstdc++'s std::function, seen only with sanitizers.
    add_compile_options(-Wno-maybe-uninitialized)
  endif()
  if(LARDER_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # gcc's TSan does not model fences and says so. The one we use orders reads of memory that
    # another process writes, which no TSan sees anyway.
    add_compile_options(-Wno-tsan)
  endif()
endif()
