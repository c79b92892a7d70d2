# Cross build for arm64 on Debian, run under qemu-user: tools/aarch64.sh makes the sysroot and calls this.
#
#     cmake -S . -B B --toolchain cmake/aarch64.cmake -DGY_SYSROOT=DIR
#
# GY_SYSROOT holds Debian's arm64 libcurl, libssl and libcmocka with what they need, unpacked; headers and start files
# of the C library come with the cross compiler. ctest runs every program through CMAKE_CROSSCOMPILING_EMULATOR.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(GY_SYSROOT "" CACHE PATH "Unpacked arm64 packages")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES GY_SYSROOT)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L ${GY_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${GY_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${GY_SYSROOT})
set(dir ${GY_SYSROOT}/usr/lib/aarch64-linux-gnu)
# The link needs what the libraries need, though it links with none of it.
set(CMAKE_EXE_LINKER_FLAGS_INIT "-L${dir} -Wl,-rpath-link,${dir}:${GY_SYSROOT}/lib/aarch64-linux-gnu")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "${CMAKE_EXE_LINKER_FLAGS_INIT}")
# Debian puts opensslconf.h beside the general headers.
set(CMAKE_C_FLAGS_INIT "-isystem ${GY_SYSROOT}/usr/include/aarch64-linux-gnu")
