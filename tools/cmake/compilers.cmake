# How every file is compiled: the compiler cache, CUDA (OPBOUND_USE_CUDA), and the target
# opbound_flags.

# ---- the compiler cache; a launcher given by the user wins --------------------------------------

find_program(OPBOUND_CCACHE ccache)
mark_as_advanced(OPBOUND_CCACHE)
if(OPBOUND_CCACHE)
  foreach(language IN ITEMS CXX CUDA)
    if(NOT DEFINED CMAKE_${language}_COMPILER_LAUNCHER)
      set(CMAKE_${language}_COMPILER_LAUNCHER
          ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
          ${OPBOUND_CCACHE})  # so that two checkouts share it
    endif()
  endforeach()
endif()

# ---- CUDA: CUDACXX, the PATH, the usual place, or where `tools/setup --cuda` puts nvcc ----------

if(OPBOUND_CUDA AND NOT CMAKE_CUDA_COMPILER)
  find_program(OPBOUND_NVCC NAMES $ENV{CUDACXX} nvcc
               PATHS /usr/local/cuda/bin $ENV{HOME}/.cache/opbound/cuda/nvidia/cu13/bin)
  mark_as_advanced(OPBOUND_NVCC)
  if(OPBOUND_NVCC)
    set(CMAKE_CUDA_COMPILER ${OPBOUND_NVCC})
  endif()
endif()

set(OPBOUND_USE_CUDA OFF)
if(NOT OPBOUND_CUDA)
  message(STATUS "CUDA: off (OPBOUND_CUDA=OFF), host code only")
elseif(CMAKE_CUDA_COMPILER)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 90)
  endif()
  enable_language(CUDA)
  set(OPBOUND_USE_CUDA ON)
  message(STATUS "CUDA: nvcc ${CMAKE_CUDA_COMPILER_VERSION}, sm_${CMAKE_CUDA_ARCHITECTURES}")
elseif(OPBOUND_CUDA STREQUAL "REQUIRED")
  message(FATAL_ERROR "CUDA: no nvcc found; `tools/setup --cuda` installs one")
else()
  message(STATUS "CUDA: off (no nvcc; `tools/setup --cuda` installs one), host code only")
endif()

# ---- flags --------------------------------------------------------------------------------------
# No contraction and no fast-math on either side: a kernel's fused multiply-adds are those that it
# writes, so host and device give the same bits.

add_library(opbound_flags INTERFACE)
target_compile_features(opbound_flags INTERFACE cxx_std_20)
target_include_directories(opbound_flags INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})

set(machine_flags -ffp-contract=off)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  list(APPEND machine_flags -march=x86-64-v3)  # fma in hardware; exp is 20 times slower without
endif()
set(warning_flags -Wall -Wextra -Wconversion -Wnon-virtual-dtor -Wold-style-cast
                  -Wcast-align -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND warning_flags -Wshadow=local)  # a local may bear a constant's or a function's name
endif()
target_compile_options(opbound_flags INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:${machine_flags};${warning_flags}>")

# CMake 3.25.1 does not know nvcc's C++20, hence -std here. The host code that nvcc writes has
# parentheses of its own, hence -Wno-parentheses. Each thread has a stream of its own, so that cases
# of a run go on at the same time (suites/run_cases.hpp).
list(JOIN machine_flags "," host_flags)
set(cuda_flags -std=c++20 -fmad=false --expt-relaxed-constexpr -Werror=all-warnings
               --default-stream=per-thread
               -Xcompiler=${host_flags},-Wall,-Wextra,-Wno-parentheses)
target_compile_options(opbound_flags INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:${cuda_flags}>")

if(OPBOUND_SANITIZE)
  set(sanitizers -fsanitize=address,undefined -fno-sanitize-recover=all)
  if(OPBOUND_SANITIZE STREQUAL "THREAD")
    set(sanitizers -fsanitize=thread)
  elseif(OPBOUND_SANITIZE STREQUAL "ADDRESS")
    set(sanitizers -fsanitize=address -fno-sanitize-recover=all)
  elseif(OPBOUND_SANITIZE STREQUAL "UNDEFINED")
    set(sanitizers -fsanitize=undefined -fno-sanitize-recover=all)
  endif()
  # g++ 12 takes instrumented library code for uninitialised reads.
  target_compile_options(opbound_flags INTERFACE
    ${sanitizers} -fno-omit-frame-pointer -g1 -O1 -Wno-maybe-uninitialized)
  target_link_options(opbound_flags INTERFACE ${sanitizers} -no-pie
                      LINKER:--compress-debug-sections=zlib)
elseif(OPBOUND_USE_CUDA)
  # Device builds travel to the GPU machine, whose libstdc++ may be another.
  target_link_options(opbound_flags INTERFACE -static-libstdc++ -static-libgcc)
endif()
