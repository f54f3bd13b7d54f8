# What CMake writes into <build>/generated: the sources made once per op, the table of all ops, and
# the version header. An op is a header ops/<name>.hpp that has a suite suites/<name>.toml.

# opbound_find_ops(<variable>): the names of all ops, sorted.
function(opbound_find_ops result)
  file(GLOB headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/ops/*.hpp)
  file(GLOB suites CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/suites/*.toml)
  set(names "")
  foreach(header IN LISTS headers)
    cmake_path(GET header STEM name)
    if("${PROJECT_SOURCE_DIR}/suites/${name}.toml" IN_LIST suites)
      list(APPEND names ${name})
    endif()
  endforeach()
  list(SORT names)
  set(${result} "${names}" PARENT_SCOPE)
endfunction()

# opbound_generate(<folder> <names> <host sources> <device sources> [<header folder>]): configures
# the templates <folder>/*.in and appends the results to the two source lists.
#   all_<x>.cpp.in           once: @OPS@ is the names with commas, @INCLUDES@ their headers
#   <x>.cpp.in, <x>.cu.in    once per name: @OP@; the .cu ones only with CUDA
# Headers are <header folder>/<name>.hpp, from ops/ unless said otherwise.
function(opbound_generate folder names host_list device_list)
  set(header_folder ${ARGV4})
  if(NOT header_folder)
    set(header_folder ops)
  endif()
  set(INCLUDES "")
  foreach(name IN LISTS names)
    string(APPEND INCLUDES "#include \"${header_folder}/${name}.hpp\"\n")
  endforeach()
  list(JOIN names ", " OPS)

  file(GLOB templates CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.in)
  foreach(template IN LISTS templates)
    cmake_path(GET template STEM LAST_ONLY file)
    set(list_name ${host_list})
    if(file MATCHES "\\.cu$")
      if(NOT OPBOUND_USE_CUDA)
        continue()
      endif()
      set(list_name ${device_list})
    endif()
    if(file MATCHES "^all_")
      set(output ${PROJECT_BINARY_DIR}/generated/${file})
      configure_file(${template} ${output} @ONLY)
      list(APPEND ${list_name} ${output})
    else()
      foreach(OP IN LISTS names)
        set(output ${PROJECT_BINARY_DIR}/generated/${OP}_${file})
        configure_file(${template} ${output} @ONLY)
        list(APPEND ${list_name} ${output})
      endforeach()
    endif()
  endforeach()
  set(${host_list} "${${host_list}}" PARENT_SCOPE)
  set(${device_list} "${${device_list}}" PARENT_SCOPE)
endfunction()

# opbound_version_header(<target>): keeps generated/version.hpp at the version and the commit that
# is checked out now; looked at in every build, written only when they change.
function(opbound_version_header target)
  add_custom_target(opbound_version_header_file
    COMMAND ${CMAKE_COMMAND} -DSOURCE_DIR=${PROJECT_SOURCE_DIR} -DVERSION=${PROJECT_VERSION}
            -DOUTPUT=${PROJECT_BINARY_DIR}/generated/version.hpp
            -P ${PROJECT_SOURCE_DIR}/tools/cmake/version.cmake
    BYPRODUCTS ${PROJECT_BINARY_DIR}/generated/version.hpp
    COMMENT "" VERBATIM)
  add_dependencies(${target} opbound_version_header_file)
endfunction()
