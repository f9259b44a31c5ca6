# CMake's toolchain for the folder that scripts/wheel.d/older_glibc has made: the environment variable GPUMEM_OLDER_GLIBC.
set(root $ENV{GPUMEM_OLDER_GLIBC})
set(CMAKE_C_COMPILER ${root}/cc)
set(CMAKE_FIND_ROOT_PATH ${root})
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
unset(ENV{PKG_CONFIG_PATH})
set(ENV{PKG_CONFIG_LIBDIR} ${root}/usr/local/lib/pkgconfig)
# The build runs gpumem for its manual. CMake takes the folder for one that the system's loader searches.
set(CMAKE_BUILD_RPATH ${root}/usr/local/lib)
