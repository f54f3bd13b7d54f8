# The target `tidy`: clang-tidy 14 over every source, each one again only when it or a header it
# includes has changed. With OPBOUND_TIDY_PART=K/N over every N-th of them from the K-th on.
set(OPBOUND_TIDY_PART "0/1" CACHE STRING "K/N: clang-tidy over every N-th source from the K-th on")
find_program(OPBOUND_CLANG_TIDY NAMES clang-tidy-14)
mark_as_advanced(OPBOUND_CLANG_TIDY)
if(NOT OPBOUND_CLANG_TIDY)
  return()
endif()

file(GLOB_RECURSE tidy_sources CONFIGURE_DEPENDS
     ops/*.cpp reference/*.cpp bounds/*.cpp suites/*.cpp reports/*.cpp distributed/*.cpp
     tools/*.cpp tests/test_*.cpp)
list(FILTER tidy_sources EXCLUDE REGEX "/ops/providers/[a-z_]+/")  # their libraries may be absent
foreach(engine IN ITEMS mpi nccl)
  if(NOT TARGET opbound_${engine})
    list(FILTER tidy_sources EXCLUDE REGEX "/distributed/modules/${engine}")
  endif()
endforeach()
foreach(source IN LISTS core_sources)  # one generated one brings each op header
  if(IS_ABSOLUTE ${source} AND source MATCHES "_kernel.cpp$|all_")
    list(APPEND tidy_sources ${source})
  endif()
endforeach()

if(TARGET opbound_faults)  # the tables of all planted faults and public cases bring their headers
  get_target_property(fault_sources opbound_faults SOURCES)
  list(APPEND tidy_sources ${fault_sources})
endif()

string(REPLACE "/" ";" part "${OPBOUND_TIDY_PART}")
list(GET part 0 turn)
list(GET part 1 turns)
set(stamps "")
set(index 0)
foreach(source IN LISTS tidy_sources)
  math(EXPR place "${index} % ${turns}")
  math(EXPR index "${index} + 1")
  if(NOT place EQUAL turn)
    continue()
  endif()
  cmake_path(GET source FILENAME name)
  set(stamp ${PROJECT_BINARY_DIR}/tidy/${name})
  if(stamp IN_LIST stamps)  # a second file of this name, in another folder
    cmake_path(GET source PARENT_PATH folder)
    cmake_path(GET folder FILENAME folder)
    set(stamp ${PROJECT_BINARY_DIR}/tidy/${folder}_${name})
  endif()
  add_custom_command(
    OUTPUT ${stamp}
    COMMAND ${OPBOUND_CLANG_TIDY} -p ${PROJECT_BINARY_DIR} --quiet ${source}
    COMMAND ${CMAKE_CXX_COMPILER} -std=c++20 -I${PROJECT_SOURCE_DIR} -I${PROJECT_BINARY_DIR}
            -MM -MT ${stamp} -MF ${stamp}.d ${source}
    COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
    DEPENDS ${source} ${PROJECT_SOURCE_DIR}/.clang-tidy opbound_version_header_file
    DEPFILE ${stamp}.d
    COMMENT "clang-tidy ${name}" VERBATIM)
  list(APPEND stamps ${stamp})
endforeach()
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/tidy)
add_custom_target(tidy DEPENDS ${stamps})
