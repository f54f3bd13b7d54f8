# The target opbound_packages: the libraries the project builds on, static or header-only so that
# a program built on Debian 12 runs on Ubuntu 24.04.
find_package(Threads REQUIRED)
find_library(OPBOUND_MPFR NAMES libmpfr.a mpfr)
find_library(OPBOUND_GMP NAMES libgmp.a gmp)
find_library(OPBOUND_SQLITE NAMES libsqlite3.a sqlite3)
find_library(OPBOUND_ZLIB NAMES libz.a z)
find_path(OPBOUND_MPFR_HEADERS mpfr.h)
find_path(OPBOUND_TOMLPLUSPLUS_HEADERS toml++/toml.h)
find_path(OPBOUND_JSON_HEADERS nlohmann/json.hpp)
find_path(OPBOUND_CLI11_HEADERS CLI/CLI.hpp)
find_path(OPBOUND_FMT_HEADERS fmt/format.h)
find_path(OPBOUND_SQLITE_HEADERS sqlite3.h)
find_path(OPBOUND_ZLIB_HEADERS zlib.h)

set(missing "")
foreach(pair IN ITEMS MPFR:libmpfr-dev GMP:libgmp-dev MPFR_HEADERS:libmpfr-dev
                      TOMLPLUSPLUS_HEADERS:libtomlplusplus-dev JSON_HEADERS:nlohmann-json3-dev
                      CLI11_HEADERS:libcli11-dev FMT_HEADERS:libfmt-dev
                      SQLITE:libsqlite3-dev SQLITE_HEADERS:libsqlite3-dev
                      ZLIB:zlib1g-dev ZLIB_HEADERS:zlib1g-dev)
  string(REPLACE ":" ";" pair ${pair})
  list(GET pair 0 variable)
  list(GET pair 1 package)
  mark_as_advanced(OPBOUND_${variable})
  if(NOT OPBOUND_${variable})
    list(APPEND missing ${package})
  endif()
endforeach()
if(missing)
  list(REMOVE_DUPLICATES missing)
  list(JOIN missing " " missing)
  message(FATAL_ERROR "Not found: ${missing} (Debian and Ubuntu names). tools/setup installs them.")
endif()

add_library(opbound_packages INTERFACE)
target_compile_definitions(opbound_packages INTERFACE FMT_HEADER_ONLY=1)
target_include_directories(opbound_packages SYSTEM INTERFACE
  ${OPBOUND_MPFR_HEADERS} ${OPBOUND_TOMLPLUSPLUS_HEADERS} ${OPBOUND_JSON_HEADERS}
  ${OPBOUND_CLI11_HEADERS} ${OPBOUND_FMT_HEADERS} ${OPBOUND_SQLITE_HEADERS}
  ${OPBOUND_ZLIB_HEADERS})
target_link_libraries(opbound_packages INTERFACE
  ${OPBOUND_MPFR} ${OPBOUND_GMP} ${OPBOUND_SQLITE} ${OPBOUND_ZLIB} Threads::Threads
  ${CMAKE_DL_LIBS})
