# A plug-in of CUDA sources, part of opbound's build or a project of its own:
#
#   project(opbound_<name> LANGUAGES CXX)
#   set(plugin <name>)
#   include(../cuda_plugin.cmake)
#
# Makes libopbound_<name>.so of the folder's sources, with CUB, from the CCCL that CCCL_DIR names or
# that comes with nvcc; where there is none, no target opbound_<name>, and a line that says why. No
# GPU is needed to build.
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
if(PROJECT_IS_TOP_LEVEL)
  include(CheckLanguage)
  check_language(CUDA)
endif()
if(NOT CMAKE_CUDA_COMPILER)  # of opbound's own build: where that has found one
  message(STATUS "${plugin}: no nvcc, --provider ${plugin} is left out")
  return()
endif()
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 90)
endif()
enable_language(CUDA)
find_package(CUDAToolkit QUIET)
find_package(CCCL CONFIG QUIET HINTS ${CUDAToolkit_LIBRARY_DIR}/cmake
             ${CUDAToolkit_INCLUDE_DIRS}/../lib64/cmake ${CUDAToolkit_INCLUDE_DIRS}/../lib/cmake)
if(NOT TARGET CCCL::CCCL)
  message(STATUS "${plugin}: CCCL was not found (CCCL_DIR says where), --provider ${plugin} is "
                 "left out")
  return()
endif()

file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp
     ${CMAKE_CURRENT_SOURCE_DIR}/*.cu)
add_library(opbound_${plugin} MODULE ${sources})
target_compile_features(opbound_${plugin} PRIVATE cxx_std_20)
target_include_directories(opbound_${plugin} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/../../..)
target_compile_options(opbound_${plugin} PRIVATE
  "$<$<COMPILE_LANGUAGE:CXX>:-O1;-Wall;-Wextra;-fvisibility=hidden>"
  "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-fvisibility=hidden>")
target_link_libraries(opbound_${plugin} PRIVATE CCCL::CCCL CUDA::cudart_static)
# It travels to the machine with the GPU, whose libstdc++ may be another.
target_link_options(opbound_${plugin} PRIVATE -static-libstdc++ -static-libgcc
                    -Wl,--exclude-libs,ALL -Wl,--as-needed)
set_target_properties(opbound_${plugin} PROPERTIES CXX_EXTENSIONS OFF CUDA_EXTENSIONS OFF
                      CUDA_STANDARD 17 CUDA_STANDARD_REQUIRED ON
                      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
message(STATUS "${plugin}: CCCL ${CCCL_VERSION}, libopbound_${plugin}.so")
