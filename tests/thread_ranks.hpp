// Where the ranks that are threads came from for tests: they are the program's own now.
#pragma once

#include "distributed/thread_ranks.hpp"  // IWYU pragma: export
