# opbound_faults: the planted faults, the public cases and the detection table made of them, as a
# library for `opbound power` and for any test.

# The planted faults of every op that has a faults/<op>.hpp.
set(ops_with_faults "")
foreach(op IN LISTS OPBOUND_OPS)
  if(EXISTS ${PROJECT_SOURCE_DIR}/tests/faults/${op}.hpp)
    list(APPEND ops_with_faults ${op})
  endif()
endforeach()
set(fault_sources "")
opbound_generate(tests/faults "${ops_with_faults}" fault_sources fault_device_sources tests/faults)

# The public cases that can be shown with an op: cases/<op>.hpp.
set(ops_with_cases "")
foreach(op IN LISTS OPBOUND_OPS)
  if(EXISTS ${PROJECT_SOURCE_DIR}/tests/cases/${op}.hpp)
    list(APPEND ops_with_cases ${op})
  endif()
endforeach()
opbound_generate(tests/cases "${ops_with_cases}" fault_sources fault_device_sources tests/cases)

file(GLOB detection_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/detection/*.cpp)
add_library(opbound_faults STATIC ${fault_sources} ${detection_sources})
target_link_libraries(opbound_faults PUBLIC opbound_core)
