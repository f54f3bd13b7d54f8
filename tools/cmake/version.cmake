# Writes OUTPUT, a header with VERSION and the commit of SOURCE_DIR, unless it says so already.
execute_process(COMMAND git describe --always --dirty --abbrev=12 --exclude=*
                WORKING_DIRECTORY ${SOURCE_DIR} OUTPUT_VARIABLE commit RESULT_VARIABLE status
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT status EQUAL 0)
  set(commit unknown)
endif()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [=[
// Written by tools/cmake/version.cmake in every build that changes it.
#pragma once

namespace opbound {
inline constexpr const char* version = "@VERSION@";
inline constexpr const char* commit = "@commit@";
}  // namespace opbound
]=])
