// The one place that holds the version; CMake and pyproject.toml read it from here.
#pragma once

#define KVOPT_VERSION "0.1.0"
